"""Inventories as kubectl shows them, through the aggregation layer."""

import json
import secrets
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    KUSTOMIZATION,
    Space,
    config_map,
    deployment,
)
from tests.e2e.plans import fetch, secret, start
from tests.e2e.window import Window
from tests.tools import rights
from tests.tools.command import Ended, penstock
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL = "kustomizations.kustomize.toolkit.fluxcd.io"


@pytest.fixture
def window(space: Space) -> Window:
    return Window(space)


def by_name(objects: list[Json]) -> dict[str, Json]:
    return {f"{one['kind']}/{one['name']}": one for one in objects}


async def grant(window: Window, account: str, role: str, *resources: str) -> None:
    """Make an account with a role of the cluster in the space; it lets get these, among others."""
    where = window.space.namespace
    await window("create", "serviceaccount", account)
    subject = f"--serviceaccount={where}:{account}"
    await window("create", "rolebinding", account, f"--clusterrole={role}", subject)
    rule = {"apiGroups": ["gitops.penstock.dev"], "resources": resources, "verbs": ["get"]}
    user = f"system:serviceaccount:{where}:{account}"
    await rights.noticed(window.space.world.api, user, rule, namespace=where)


async def test_an_inventory_tells_the_health_of_everything(space: Space, window: Window) -> None:
    files = {
        "a.yaml": config_map("a", v="1"),
        "w.yaml": deployment("web"),
        "s.yaml": secret("s", p="x"),
    }
    revision = await start(space, files, wait=True)

    await window("wait", "--for=jsonpath={.status.ready}=True", "inv/app", "--timeout=50s")
    await window("wait", "--for=condition=Ready", "inv/app", "--timeout=50s")
    table = await window("get", "inv", "-o", "wide")
    objects = by_name((await window.raw("objects"))["objects"])

    assert table.splitlines()[0].split() == [
        *("NAME", "OBJECTS", "READY", "DRIFTED", "REVISION", "AGE"),
        *("SUSPENDED", "SOURCE", "MESSAGE"),
    ]
    name, listed, ready, drifted, shown = table.splitlines()[1].split()[:5]
    assert (name, listed, ready, drifted) == ("app", "3", "2/2", "0")
    assert shown in revision
    assert objects["Deployment/web"]["health"] == "Current"
    assert objects["ConfigMap/a"]["appliedAt"]
    assert objects["Secret/s"]["observed"] is False
    assert "may not be watched" in objects["Secret/s"]["message"]


async def test_drift_is_told_and_heals(space: Space, window: Window) -> None:
    await start(space, {"a.yaml": config_map("a", v="1"), "b.yaml": config_map("b", v="1")})
    await window.until(lambda status: status["current"] == 2)
    await space.suspend()

    await window("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"v":"2"}}')
    await window("delete", "configmap", "b")
    found = await window.until(lambda status: status["drifted"] == 2)
    selected = await window("get", "inv", "--field-selector=status.drifted!=0", "-o", "name")
    healthy = await window("get", "inv", "--field-selector=status.ready=True", "-o", "name")

    problems = by_name(found["status"]["problems"])
    assert problems["ConfigMap/a"]["drift"] == "Changed"
    assert problems["ConfigMap/a"]["changedBy"] == ["kubectl-patch"]
    assert problems["ConfigMap/b"]["drift"] == "Missing"
    assert (found["status"]["missing"], found["status"]["ready"]) == (1, "False")
    assert (selected.strip(), healthy) == ("inventory.gitops.penstock.dev/app", "")

    await window("patch", FULL, "app", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    await window("create", "--raw", window.path("reconcile"), "-f", "-", stdin="{}")
    await window.until(lambda status: status["drifted"] == 0 and status["ready"] == "True")


async def test_reconcile_needs_one_right_and_does_one_thing(space: Space, window: Window) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})
    await window.until(lambda status: status["ready"] == "True")
    await window("create", "serviceaccount", "asker")
    rule: Json = {
        "apiGroups": ["gitops.penstock.dev"],
        "resources": ["inventories/reconcile"],
        "verbs": ["create"],
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "asker"},
        "rules": [rule],
    }
    await window("apply", "-f", "-", stdin=yaml.safe_dump(role))
    subject = f"--serviceaccount={space.namespace}:asker"
    await window("create", "rolebinding", "asker", "--role=asker", subject)
    user = f"system:serviceaccount:{space.namespace}:asker"
    await rights.noticed(space.world.api, user, rule, namespace=space.namespace)
    before = await space.get(KUSTOMIZATION, "app")
    hostile = {
        "withSource": True,
        "force": True,
        "metadata": {"annotations": {"evil": "1"}, "name": "other", "labels": {"evil": "1"}},
        "spec": {"path": "./evil", "prune": False},
        "requestedAt": "evil",
    }
    words = ("create", "--raw", window.path("reconcile"), "-f", "-")

    answer = json.loads(await window(*words, as_="asker", stdin=json.dumps(hostile)))
    after = await space.get(KUSTOMIZATION, "app")

    assert after["spec"] == before["spec"]
    stamp = answer["requestedAt"]
    assert after["metadata"]["annotations"] == {
        "reconcile.fluxcd.io/requestedAt": stamp,
        "reconcile.fluxcd.io/forceAt": stamp,
    }
    assert after["metadata"].get("labels") == before["metadata"].get("labels")
    await space.world.until(
        KUSTOMIZATION,
        space.namespace,
        "app",
        lambda obj: dig(obj, "status", "lastHandledReconcileAt") == stamp,
    )

    dry = window.path("reconcile") + "?dryRun=All"
    await window("create", "--raw", dry, "-f", "-", as_="asker", stdin="{}")
    unchanged = await space.get(KUSTOMIZATION, "app")
    assert unchanged["metadata"]["annotations"] == after["metadata"]["annotations"]
    assert "cannot get" in await window.refused("get", "inv", "app", as_="asker")
    assert "cannot get" in await window.refused("annotate", FULL, "app", "x=y", as_="asker")

    await space.suspend()
    await window("wait", "--for=jsonpath={.spec.suspended}=true", "inv/app", "--timeout=50s")
    assert "is suspended" in await window.refused(*words, stdin="{}")


async def test_the_tree_leads_to_the_pods(space: Space, window: Window) -> None:
    await start(space, {"w.yaml": deployment("web"), "a.yaml": config_map("a", v="1")}, wait=True)
    await window.until(lambda status: status["ready"] == "True")

    objects = by_name((await window.raw("tree"))["objects"])

    (replica_set,) = objects["Deployment/web"]["children"]
    (pod,) = replica_set["children"]
    assert (replica_set["kind"], pod["kind"]) == ("ReplicaSet", "Pod")
    assert (replica_set["health"], pod["health"]) == ("Current", "Current")
    assert "children" not in objects["ConfigMap/a"]


async def test_diff_and_plan_come_through_the_window(space: Space, window: Window) -> None:
    word = f"word-{secrets.token_hex(8)}"
    first = await start(space, {"a.yaml": config_map("a", v="1"), "s.yaml": secret("s", p="1")})
    await window.until(lambda status: status["current"] == 1)
    await space.suspend()
    commit = space.repositories[0].commit(
        {"a.yaml": config_map("a", v="2"), "s.yaml": secret("s", p=word)}
    )
    await fetch(space, commit)

    diff = await window.raw("diff")
    back = await window.raw(f"plan?revision={first}")
    said = await window.refused("get", "--raw", window.path("plan?revision=none"))

    changes = by_name(diff["changes"])
    assert (diff["kind"], commit in diff["revision"]) == ("InventoryPlan", True)
    assert changes["ConfigMap/a"]["differences"][0]["after"] == '"2"'
    assert changes["Secret/s"]["differences"][0]["after"] == "*** (after)"
    assert (back["revision"], back["changes"], back["unchanged"]) == (first, [], 2)
    assert first in said
    told = json.dumps([diff, back, await window.raw("objects"), await window.raw("tree")])
    assert word not in told
    assert word not in space.world.stack.log("apiserver").read_text()


async def test_the_command_shows_inventories_trees_and_plans(space: Space, window: Window) -> None:
    await start(space, {"a.yaml": config_map("a", v="1"), "w.yaml": deployment("web")}, wait=True)
    await window.until(lambda status: status["ready"] == "True")
    await space.suspend()
    same = await command(space, "diff", "inventory", "app")
    commit = space.repositories[0].commit({"a.yaml": config_map("a", v="2")})
    await fetch(space, commit)

    listed = await command(space, "get", "inv")
    shown = await command(space, "get", "inventories", "app", "-o", "json")
    tree = await command(space, "tree", "ks", "app")
    differs = await command(space, "diff", "inv", "app")
    missing = await command(space, "diff", "inv", "missing")

    assert listed.out.split()[:6] == ["NAME", "OBJECTS", "READY", "DRIFTED", "REVISION", "AGE"]
    assert listed.out.split()[6:10] == ["app", "2", "2/2", "0"]
    assert json.loads(shown.out)["kind"] == "Inventory"
    assert [line.lstrip("│├└─ ").split("/")[0] for line in tree.out.splitlines()] == [
        *("Kustomization", "ConfigMap", "Deployment", "ReplicaSet", "Pod"),
    ]
    assert (same.code, same.out) == (0, "")
    assert (differs.code, differs.out.splitlines()) == (
        1,
        [f"► ConfigMap/{space.namespace}/a drifted", '  ~ data.v: "1" → "2"'],
    )
    assert missing.code == 2
    assert f'not found in "{space.namespace}" namespace; choose another' in missing.err


async def command(space: Space, *arguments: str) -> Ended:
    """Run the command in the space as the cluster's administrator."""
    return await penstock(space.world.plane.kubeconfig, *arguments, "-n", space.namespace)


async def test_tenants_see_their_own_namespace(space: Space, window: Window) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})
    await window.until(lambda status: status["ready"] == "True")
    await grant(window, "viewer", "view", "inventories", "inventories/tree")
    await grant(window, "editor", "edit", "inventories/diff")

    assert "app" in await window("get", "inv", as_="viewer")
    assert (await window.raw("objects", as_="viewer"))["objects"]
    assert (await window.raw("tree", as_="viewer"))["objects"]
    assert (await window.raw("diff", as_="editor"))["unchanged"] == 1
    for words in (
        ("get", "inv", "-A"),
        ("get", "inv", "-n", "penstock-system"),
        ("get", "--raw", window.path("diff")),
        ("get", "--raw", window.path("plan?revision=x")),
        ("create", "--raw", window.path("reconcile"), "-f", "-"),
    ):
        said = await window.refused(*words, as_="viewer", stdin="{}")
        assert "forbidden" in said.lower(), said


async def test_nothing_is_told_of_a_neighbours_objects(space: Space, window: Window) -> None:
    """A manifest that asks to be left out names an object that its author may not read."""
    other = f"{space.namespace}-other"
    await window("create", "namespace", other)
    await window("create", "configmap", "theirs", "-n", other, "--from-literal=v=1")
    owned = "kustomize.toolkit.fluxcd.io"
    await window(
        *("label", "configmap", "theirs", "-n", other),
        *(f"{owned}/name=vault", f"{owned}/namespace={other}"),
    )
    files = {"a.yaml": config_map("a", v="1")}
    for name in ("theirs", "missing"):
        manifest: Any = yaml.safe_load(config_map(name, v="1"))
        manifest["metadata"] |= {
            "namespace": other,
            "annotations": {f"{owned}/reconcile": "disabled"},
        }
        files[f"{name}.yaml"] = yaml.safe_dump(manifest)
    repository = space.repository()
    repository.commit(files)
    kustomization = space.kustomization()
    del kustomization["spec"]["targetNamespace"]
    mine = yaml.safe_load(files["a.yaml"])
    mine["metadata"]["namespace"] = space.namespace
    repository.commit({"a.yaml": yaml.safe_dump(mine)})
    await space.world.apply(space.source(repository), kustomization)
    await space.ready()

    await window.until(lambda status: status["objects"] == 1 and status["ready"] == "True")
    objects = by_name((await window.raw("objects"))["objects"])

    assert set(objects) == {"ConfigMap/a"}
    assert "children" not in json.dumps(await window.raw("tree"))
    await window("delete", "namespace", other, "--wait=false")


async def test_another_clusters_objects_are_unobserved(space: Space, window: Window) -> None:
    remote = space.kustomization("far", suspend=True, kubeConfig={"secretRef": {"name": "far"}})
    await space.world.apply(remote)
    entries = [{"id": f"{space.namespace}_a__ConfigMap", "v": "v1"}]
    await space.world.api.patch(
        KUSTOMIZATION,
        "far",
        space.namespace,
        {"status": {"inventory": {"entries": entries}}},
        strategy="merge",
        subresource="status",
    )
    await window("create", "configmap", "a", "--from-literal=v=1")

    found = await window.until(lambda status: status["objects"] == 1, name="far")

    assert (found["status"]["observed"], found["status"]["unobserved"]) == (0, 1)
    assert "another cluster" in found["status"]["problems"][0]["message"]
    assert found["spec"]["remote"] is True


async def test_names_that_are_none_are_not_found(window: Window) -> None:
    for name in ("..%2F..%2Fapp", "a%00b", "app:helmrelease", "%2e%2e"):
        said = await window.refused("get", "--raw", f"{window.path(name=name)}/objects")
        assert "(NotFound)" in said or "(BadRequest)" in said, said
    assert "not found" in await window.refused("get", "inv", "missing")


async def test_explain_describes_every_field(window: Window) -> None:
    whole = await window("explain", "inventories")
    said = await window("explain", "inventories.status")

    about = "The health of the applied objects."
    assert (whole.count(about), said.count(about)) == (1, 1)
    assert "Number of objects that were changed or deleted since the last apply" in said
    assert "drifted" in said
    assert "health" in await window("explain", "inventories.status.problems")
