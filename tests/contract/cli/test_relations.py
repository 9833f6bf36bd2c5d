"""From objects to their source and back: tree, trace, events."""

import asyncio
import json
import time
from typing import Any

import pytest

from tests.contract.cli.controller import event
from tests.tools import namespaces
from tests.tools.administrator import Administrator
from tests.tools.waiting import SECONDS, until

GROUP = "kustomize.toolkit.fluxcd.io"


def owned(cluster: Any, kind: str, api_version: str, name: str, **fields: Any) -> dict[str, Any]:
    labels = {f"{GROUP}/name": "apps", f"{GROUP}/namespace": cluster.namespace}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        **fields,
    }


@pytest.fixture
def applied(cluster: Any) -> Any:
    ns = cluster.namespace
    cluster.git_repository(
        "apps",
        artifact=cluster.artifact,
        conditions=cluster.ready("True", "stored artifact"),
        observedGeneration=1,
    )
    entries = [
        {"id": f"{ns}_web_apps_Deployment", "v": "v1"},
        {"id": f"{ns}_nested_{GROUP}_Kustomization", "v": "v1"},
        {"id": f"_{ns}-admin_rbac.authorization.k8s.io_ClusterRole", "v": "v1"},
    ]
    cluster.kustomization(
        "apps",
        conditions=cluster.ready("True", "Applied revision"),
        observedGeneration=1,
        lastAppliedRevision=cluster.revision,
        inventory={"entries": entries},
    )
    inner = [{"id": f"{ns}_banner__ConfigMap", "v": "v1"}]
    cluster.kustomization("nested", inventory={"entries": inner})
    return cluster


def test_tree_goes_down_into_what_applies_in_turn(applied: Any, penstock: Any) -> None:
    result = penstock("tree", "ks", "apps", "-n", applied.namespace)

    ns = applied.namespace
    assert [line.lstrip("│├└─ ") for line in result.out.splitlines()] == [
        f"Kustomization/{ns}/apps",
        f"Deployment/{ns}/web",
        f"Kustomization/{ns}/nested",
        f"ConfigMap/{ns}/banner",
        f"ClusterRole/{ns}-admin",
    ]


async def test_tree_reads_with_the_rights_of_the_user_down_to_pods(
    applied: Any, penstock: Any, administrator: Administrator
) -> None:
    ns, other = applied.namespace, namespaces.create_blocking(administrator)
    template = {
        "metadata": {"labels": {"app": "far"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "far"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "far"}}
    administrator.send(
        "POST", f"/apis/apps/v1/namespaces/{other}/deployments", {**deployment, "spec": spec}
    )
    entries = [{"id": f"{other}_far_apps_Deployment", "v": "v1"}]
    applied.kustomization("elsewhere", inventory={"entries": entries})
    words = ("tree", "ks", "elsewhere", "-n", ns)

    def tree() -> list[str]:
        shown = penstock(*words).out
        return [line.lstrip("│├└─ ").partition(" ")[0] for line in shown.splitlines()]

    found = await until(lambda: asyncio.to_thread(lambda: _deep(tree())))
    reader = f"reader-{ns}"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reader}
    metadata = {"name": "reads", "namespace": ns}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
    rule = {"apiGroups": [GROUP], "resources": ["kustomizations"], "verbs": ["get"]}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
    administrator.send("POST", f"{path}/roles", {"metadata": metadata, "rules": [rule]})
    binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    administrator.send("POST", f"{path}/rolebindings", binding)
    lacking = await until(
        lambda: asyncio.to_thread(lambda: _ended_well(penstock(*words, "--as", reader)))
    )

    assert [line.rpartition("/")[0] for line in found] == [
        f"Kustomization/{ns}",
        f"Deployment/{other}",
        f"ReplicaSet/{other}",
        f"Pod/{other}",
    ]
    assert len(lacking.out.splitlines()) == 2
    assert f'cannot get resource "deployments" in API group "apps" in the namespace "{other}"' in (
        " ".join(lacking.out.split())
    )


def _ended_well(result: Any) -> Any:
    return None if result.code else result


def _deep(lines: list[str]) -> list[str]:
    return lines if len(lines) == 4 else []


def test_tree_of_a_missing_object_is_an_error(applied: Any, penstock: Any) -> None:
    result = penstock("tree", "ks", "nothing", "-n", applied.namespace)

    assert result.code == 1
    assert "'nothing' not found" in result.err


def test_trace_climbs_from_a_pod_to_the_commit(applied: Any, penstock: Any) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    applied.write(owned(applied, "Deployment", "apps/v1", "web", spec=spec))
    pod = ""
    deadline = time.monotonic() + SECONDS
    while not pod and time.monotonic() < deadline:
        pod = applied.plane.kubectl("get", "pods", "-n", applied.namespace, "-o", "name").strip()

    result = penstock("trace", pod, "-n", applied.namespace)

    assert result.code == 0
    assert "Managed by Kustomization" in result.out
    found = dict(line.split(":", 1) for line in result.out.splitlines() if ":" in line)
    assert found["Kustomization"].strip() == "apps"
    assert found["Revision"].strip() == applied.revision
    assert found["URL"].strip() == "https://git.example.com/x"


def test_trace_knows_short_names_and_tells_what_is_nobodys(applied: Any, penstock: Any) -> None:
    applied.write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}})

    result = penstock("trace", "cm", "own", "-n", applied.namespace)

    assert "Not managed" in result.out


def test_trace_takes_several_objects_and_prints_json(applied: Any, penstock: Any) -> None:
    ns = applied.namespace
    applied.write(owned(applied, "ConfigMap", "v1", "banner"))
    applied.write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}})

    both = penstock("trace", "cm/banner", "cm/own", "-n", ns)
    told = json.loads(penstock("trace", "cm/banner", "-n", ns, "-o", "json").out)

    blocks = both.out.split("\n\n")
    assert ["Managed by Kustomization" in block for block in blocks] == [True, False]
    assert "Not managed by Penstock" in blocks[1]
    assert told["object"]["name"] == "banner"
    assert told["applier"]["metadata"]["name"] == "apps"
    assert [source["kind"] for source in told["sources"]] == ["GitRepository"]


def test_trace_of_an_unknown_kind_is_an_error(applied: Any, penstock: Any) -> None:
    result = penstock("trace", "gizmo/x", "-n", applied.namespace)

    assert result.code == 1
    assert "kubectl api-resources" in result.err


def test_events_of_an_object_include_its_source(applied: Any, penstock: Any) -> None:
    for kind, reason in (("GitRepository", "NewArtifact"), ("Kustomization", "Succeeded")):
        applied.write(event(applied, kind, "apps", reason))
    applied.write(event(applied, "Kustomization", "other", "NotAsked"))

    result = penstock("events", "--for", "Kustomization/apps", "-n", applied.namespace)

    assert "NewArtifact" in result.out
    assert "Kustomization/apps" in result.out
    assert "NotAsked" not in result.out


def test_events_can_be_of_one_type_only(applied: Any, penstock: Any) -> None:
    applied.write(event(applied, "Kustomization", "apps", "Fine"))
    applied.write(event(applied, "Kustomization", "apps", "Bad", type="Warning"))

    result = penstock("events", "--types", "Warning", "-n", applied.namespace)

    assert "Bad" in result.out
    assert "Fine" not in result.out
