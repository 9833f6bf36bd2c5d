"""Every field of a Kustomization does what it says, seen on the objects of a real API server."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SECRET,
    Space,
    condition,
    config_map,
    deployment,
    is_ready,
)
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
MARK = "kustomize.toolkit.fluxcd.io"


async def start(space: Space, files: Mapping[str, str], **spec: Any) -> Json:
    """Commit the files and return the Kustomization that has applied them."""
    repository = space.repository()
    commit = repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization(**spec))
    return await space.ready(revision=commit)


async def push(space: Space, files: Mapping[str, str | None]) -> str:
    """Commit to the space's first repository and have it fetched."""
    commit = space.repositories[0].commit(files)
    await space.request(GIT_REPOSITORY)
    return commit


async def edit(space: Space, gvk: GroupVersionKind, name: str, change: Json) -> Json:
    """Change an object as a user would."""
    return await space.world.api.patch(
        gvk, name, space.namespace, change, strategy="merge", manager="kubectl-edit"
    )


async def remove(space: Space, gvk: GroupVersionKind, name: str) -> None:
    await space.world.api.delete(gvk, name, space.namespace)


async def told(space: Space, message: str) -> list[Json]:
    """Return the events about the Kustomization that say something, once there is one."""
    await space.told(message)
    selector = "involvedObject.kind=Kustomization,involvedObject.name=app"
    events = await space.world.api.list(EVENT, space.namespace, field_selector=selector)
    return [event for event in events if message in event["message"]]


def manifest(kind: str, name: str, **fields: Any) -> str:
    """Return the manifest of a core object; ``metadata`` is added to."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return yaml.safe_dump({"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields})


def marked(name: str, mark: str, value: str, **data: str) -> str:
    """Return the manifest of a ConfigMap with one of our annotations."""
    annotations = {f"{MARK}/{mark}": value}
    return manifest("ConfigMap", name, metadata={"annotations": annotations}, data=data)


def names(obj: Json) -> set[str]:
    """Return the ids of the inventory."""
    return {entry["id"] for entry in dig(obj, "status", "inventory", "entries", default=[])}


async def test_path_chooses_a_directory_and_one_that_is_missing_is_named(space: Space) -> None:
    files = {"apps/web/a.yaml": config_map("a"), "apps/b.yaml": config_map("b")}
    obj = await start(space, files, path="./apps/web")

    await edit(space, KUSTOMIZATION, "app", {"spec": {"path": "./apps/nowhere"}})
    refused = await space.refused(saying="nowhere")

    assert names(obj) == {f"{space.namespace}_a__ConfigMap"}
    assert condition(refused, "Ready")["reason"] == "ArtifactFailed"
    assert names(refused) == names(obj)


async def test_names_namespace_and_images_are_transformed(space: Space) -> None:
    files = {
        "web.yaml": deployment("web", image="registry.example/app:1"),
        "tool.yaml": deployment("tool", image="registry.example/tool:1"),
        "settings.yaml": manifest("ConfigMap", "settings", metadata={"namespace": "elsewhere"}),
    }
    digest = f"sha256:{'0' * 64}"
    images = [
        {"name": "registry.example/app", "newName": "mirror.example/app", "newTag": "2"},
        {"name": "registry.example/tool", "digest": digest},
    ]

    obj = await start(space, files, namePrefix="pre-", nameSuffix="-end", images=images)

    containers = ("spec", "template", "spec", "containers")
    web = await space.get(DEPLOYMENT, "pre-web-end")
    tool = await space.get(DEPLOYMENT, "pre-tool-end")
    assert dig(web, *containers)[0]["image"] == "mirror.example/app:2"
    assert dig(tool, *containers)[0]["image"] == f"registry.example/tool@{digest}"
    assert f"{space.namespace}_pre-settings-end__ConfigMap" in names(obj)


async def test_changed_prefix_moves_the_objects(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a")}, namePrefix="old-")

    await edit(space, KUSTOMIZATION, "app", {"spec": {"namePrefix": "new-"}})
    obj = await space.ready()

    await space.world.gone(CONFIG_MAP, space.namespace, "old-a")
    assert names(obj) == {f"{space.namespace}_new-a__ConfigMap"}


async def test_object_goes_over_to_whoever_applies_it_now(space: Space) -> None:
    repository = space.repository()
    repository.commit({"one/a.yaml": config_map("a", by="one"), "two/b.yaml": config_map("b")})
    await space.world.apply(
        space.source(repository),
        *(space.kustomization(name, path=f"./{name}") for name in ("one", "two")),
    )
    for name in ("one", "two"):
        await space.ready(name=name)

    # the first one prunes, the second one applies, in whatever order
    moved = {
        "one/a.yaml": None,
        "one/c.yaml": config_map("c"),
        "two/a.yaml": config_map("a", by="two"),
    }
    commit = await push(space, moved)
    for name in ("one", "two"):
        await space.ready(name=name, revision=commit)

    await space.world.until(
        CONFIG_MAP, space.namespace, "a", lambda obj: dig(obj, "data", "by") == "two"
    )
    await asyncio.sleep(0.5)
    owner = (await space.get(CONFIG_MAP, "a"))["metadata"]["labels"][f"{MARK}/name"]
    assert owner == "two"


async def test_patches_of_every_form_are_applied(space: Space) -> None:
    files = {"a.yaml": config_map("alpha", kept="1"), "b.yaml": config_map("beta", kept="1")}
    merge = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alpha"}}
    added = [{"op": "add", "path": "/data/json", "value": "1"}]
    legacy = [{"op": "add", "path": "/data/legacyJson", "value": "1"}]

    await start(
        space,
        files,
        validation="client",
        patches=[
            {"patch": yaml.safe_dump({**merge, "data": {"merge": "1"}})},
            {"patch": yaml.safe_dump(added), "target": {"kind": "ConfigMap", "name": "(al|be).*"}},
        ],
        patchesStrategicMerge=[{**merge, "data": {"legacyMerge": "1"}}],
        patchesJson6902=[
            {"patch": legacy, "target": {"version": "v1", "kind": "ConfigMap", "name": "beta"}}
        ],
    )

    alpha, beta = await space.get(CONFIG_MAP, "alpha"), await space.get(CONFIG_MAP, "beta")
    assert alpha["data"] == {"kept": "1", "merge": "1", "json": "1", "legacyMerge": "1"}
    assert beta["data"] == {"kept": "1", "json": "1", "legacyJson": "1"}


async def test_components_are_added_and_a_missing_one_only_if_ignored(space: Space) -> None:
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["extra.yaml"],
    }
    files = {
        "app/a.yaml": config_map("a"),
        "parts/one/kustomization.yaml": yaml.safe_dump(component),
        "parts/one/extra.yaml": config_map("extra"),
    }
    await start(space, files, path="./app", components=["../parts/one"])

    both = {"components": ["../parts/one", "../parts/missing"]}
    await edit(space, KUSTOMIZATION, "app", {"spec": both})
    refused = await space.refused(saying="parts/missing")
    await edit(space, KUSTOMIZATION, "app", {"spec": {"ignoreMissingComponents": True}})
    obj = await space.ready()

    assert condition(refused, "Ready")["reason"] == "BuildFailed"
    assert names(obj) == {f"{space.namespace}_{name}__ConfigMap" for name in ("a", "extra")}


async def test_common_and_build_metadata_are_put_on_every_object(space: Space) -> None:
    labelled = manifest("ConfigMap", "a", metadata={"labels": {"team": "theirs", "own": "1"}})

    await start(
        space,
        {"a.yaml": labelled},
        commonMetadata={"labels": {"team": "ours"}, "annotations": {"example.org/note": "x"}},
        buildMetadata=["originAnnotations", "transformerAnnotations"],
    )

    metadata = (await space.get(CONFIG_MAP, "a"))["metadata"]
    assert metadata["labels"] == {
        "team": "ours",
        "own": "1",
        f"{MARK}/name": "app",
        f"{MARK}/namespace": space.namespace,
    }
    assert metadata["annotations"]["example.org/note"] == "x"
    assert "path: a.yaml" in metadata["annotations"]["config.kubernetes.io/origin"]
    assert (
        "NamespaceTransformer"
        in (metadata["annotations"]["alpha.config.kubernetes.io/transformations"])
    )


async def test_deletion_policy_decides_what_goes_along(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("object")})
    policies: dict[str, Json] = {
        "mirror": {"prune": True},
        "mirror-unpruned": {"prune": False},
        "delete": {"prune": False, "deletionPolicy": "Delete"},
        "orphan": {"prune": True, "deletionPolicy": "Orphan"},
        "suspended": {"prune": True},
    }
    apps = [space.kustomization(n, namePrefix=f"{n}-", **spec) for n, spec in policies.items()]
    await space.world.apply(space.source(repository), *apps)
    for name in policies:
        await space.ready(name=name)
    await edit(space, KUSTOMIZATION, "suspended", {"spec": {"suspend": True}})

    for name in policies:
        await remove(space, KUSTOMIZATION, name)
    for name in policies:
        await space.world.gone(KUSTOMIZATION, space.namespace, name)

    kept = {
        name
        for name in policies
        if await space.world.exists(CONFIG_MAP, space.namespace, f"{name}-object")
    }
    assert kept == {"mirror-unpruned", "orphan", "suspended"}


async def test_wait_for_termination_outlives_the_last_object(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a")}, deletionPolicy="WaitForTermination")
    await edit(space, CONFIG_MAP, "a", {"metadata": {"finalizers": ["example.org/hold"]}})

    await remove(space, KUSTOMIZATION, "app")
    waiting = await space.refused(saying="waiting for termination")
    still_there = await space.get(CONFIG_MAP, "a")
    await asyncio.sleep(2.5)  # it has looked again
    await edit(space, CONFIG_MAP, "a", {"metadata": {"finalizers": None}})

    what = f"ConfigMap/{space.namespace}/a"
    assert condition(waiting, "Ready")["message"] == f"waiting for termination of {what}"
    assert still_there["metadata"]["deletionTimestamp"]
    await space.world.gone(KUSTOMIZATION, space.namespace, "app")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "a")
    assert [event.get("count", 1) for event in await told(space, f"{what} deleted")] == [1]


@pytest.mark.parametrize("how", ["spec", "annotation"])
async def test_immutable_field_is_changed_only_by_force(space: Space, how: str) -> None:
    def web(selector: str, **annotations: str) -> str:
        obj = yaml.safe_load(deployment("web"))
        obj["spec"]["selector"]["matchLabels"] = {"app": selector}
        obj["spec"]["template"]["metadata"]["labels"] = {"app": selector}
        obj["metadata"]["annotations"] = annotations
        return yaml.safe_dump(obj)

    await start(space, {"d.yaml": web("one")})
    first = await space.get(DEPLOYMENT, "web")
    await push(space, {"d.yaml": web("two")})
    refused = await space.refused(saying="immutable")
    second = await space.get(DEPLOYMENT, "web")

    if how == "spec":
        await edit(space, KUSTOMIZATION, "app", {"spec": {"force": True}})
    else:
        await push(space, {"d.yaml": web("two", **{f"{MARK}/force": "enabled"})})
    await space.ready()

    third = await space.get(DEPLOYMENT, "web")
    assert f"Deployment/{space.namespace}/web" in condition(refused, "Ready")["message"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert third["metadata"]["uid"] != first["metadata"]["uid"]
    assert third["spec"]["selector"]["matchLabels"] == {"app": "two"}


async def test_ssa_annotations_tell_how_to_meet_what_is_there(space: Space) -> None:
    there = [
        yaml.safe_load(config_map(n, theirs="1", both="1")) for n in ("plain", "merge", "once")
    ]
    for obj in there:
        obj["metadata"]["namespace"] = space.namespace
    await space.world.apply(*there)

    obj = await start(
        space,
        {
            "plain.yaml": config_map("plain", both="2"),
            "merge.yaml": marked("merge", "ssa", "Merge", both="2"),
            "once.yaml": marked("once", "ssa", "IfNotPresent", both="2"),
            "absent.yaml": marked("absent", "ssa", "IfNotPresent", both="2"),
            "never.yaml": marked("never", "ssa", "Ignore", both="2"),
        },
    )

    data = {
        n: (await space.get(CONFIG_MAP, n))["data"] for n in ("plain", "merge", "once", "absent")
    }
    assert data == {
        "plain": {"both": "2"},
        "merge": {"theirs": "1", "both": "2"},
        "once": {"theirs": "1", "both": "1"},
        "absent": {"both": "2"},
    }
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "never")
    assert is_ready(obj)


async def test_disabled_objects_are_neither_changed_nor_pruned(space: Space) -> None:
    files = {
        "mine.yaml": config_map("mine", v="1"),
        "hands-off.yaml": config_map("hands-off", v="1"),
        "left.yaml": config_map("left", v="1"),
        "kept.yaml": marked("kept", "prune", "disabled", v="1"),
        "gone.yaml": config_map("gone", v="1"),
    }
    await start(space, files)
    # on the live objects, as a user does in an emergency
    for name in ("hands-off", "left"):
        annotations = {f"{MARK}/reconcile": "Disabled"}
        await edit(space, CONFIG_MAP, name, {"metadata": {"annotations": annotations}})

    commit = await push(
        space,
        {
            "mine.yaml": config_map("mine", v="2"),
            "hands-off.yaml": config_map("hands-off", v="2"),
            "left.yaml": None,
            "kept.yaml": None,
            "gone.yaml": None,
        },
    )
    await space.ready(revision=commit)

    await space.world.gone(CONFIG_MAP, space.namespace, "gone")
    assert (await space.get(CONFIG_MAP, "mine"))["data"] == {"v": "2"}
    assert (await space.get(CONFIG_MAP, "hands-off"))["data"] == {"v": "1"}
    assert await space.world.exists(CONFIG_MAP, space.namespace, "left")
    assert await space.world.exists(CONFIG_MAP, space.namespace, "kept")


async def test_ignored_fields_are_left_to_others(space: Space) -> None:
    rule = {"paths": ["/spec/replicas"], "target": {"kind": "Deployment"}}
    await start(space, {"d.yaml": deployment("web", replicas=1)}, ignore=[rule])
    await space.world.api.patch(
        DEPLOYMENT,
        "web",
        space.namespace,
        {"spec": {"replicas": 3}},
        strategy="merge",
        manager="autoscaler",
    )

    commit = await push(
        space, {"d.yaml": deployment("web", replicas=2, image="registry.example/b")}
    )
    await space.ready(revision=commit)

    spec = (await space.get(DEPLOYMENT, "web"))["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["image"] == "registry.example/b"


FORMS = {
    "plain": ("${name}", "penstock"),
    "within": ("a-${name}-b", "a-penstock-b"),
    "default": ("${missing:=fallback}", "fallback"),
    "fallback": ("${missing:-fallback}", "fallback"),
    "emptyDefault": ("-${missing:=}-", "--"),
    "given": ("${name:-unused}", "penstock"),
    "slice": ("${name:0:3}", "pen"),
    "tail": ("${name:3}", "stock"),
    "length": ("n${#name}", "n8"),
    "upper": ("${name^^}", "PENSTOCK"),
    "lower": ("${SHOUT,,}", "loud"),
    "capital": ("${name^}", "Penstock"),
    "replaced": ("${name/stock/cil}", "pencil"),
    "replacedAll": ("${path//./-}", "a-b-c"),
    "prefix": ("${path#*.}", "b.c"),
    "suffix": ("${path%.*}", "a.b"),
    "escaped": ("$${name}", "${name}"),
    "lone": ("cost: 5$", "cost: 5$"),
}


async def test_bash_forms_are_substituted(space: Space) -> None:
    data = {key: form for key, (form, _) in FORMS.items()}
    variables = {"name": "penstock", "SHOUT": "LOUD", "path": "a.b.c"}

    await start(space, {"a.yaml": config_map("a", **data)}, postBuild={"substitute": variables})

    found = (await space.get(CONFIG_MAP, "a"))["data"]
    assert found == {key: value for key, (_, value) in FORMS.items()}


async def test_variables_come_from_objects_and_the_spec_wins(space: Space) -> None:
    where = {"namespace": space.namespace}
    await space.world.apply(
        yaml.safe_load(manifest("ConfigMap", "early", metadata=where, data={"a": "1", "b": "1"})),
        yaml.safe_load(
            manifest("Secret", "late", metadata=where, stringData={"b": "2\n", "c": "2", "d": "2"})
        ),
    )
    given = [
        {"kind": "ConfigMap", "name": "early"},
        {"kind": "Secret", "name": "late"},
        {"kind": "ConfigMap", "name": "absent", "optional": True},
    ]
    files = {"a.yaml": config_map("result", all="${a} ${b} ${c} ${d}", fixed="v${e}")}

    await start(
        space, files, postBuild={"substitute": {"d": "3", "e": "3"}, "substituteFrom": given}
    )

    assert (await space.get(CONFIG_MAP, "result"))["data"] == {"all": "1 2 2 3", "fixed": "v3"}


async def test_number_in_a_variable_becomes_a_number(space: Space) -> None:
    text = deployment("web").replace("replicas: 1", "replicas: ${n}")

    await start(space, {"d.yaml": text}, postBuild={"substitute": {"n": "2"}})

    assert (await space.get(DEPLOYMENT, "web"))["spec"]["replicas"] == 2


@pytest.mark.ungated
async def test_missing_variable_and_missing_object_are_named(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="${undefined}")})
    absent = [{"kind": "ConfigMap", "name": "absent"}]
    await space.world.apply(
        space.source(repository),
        space.kustomization("strict", postBuild={"substitute": {"defined": "1"}}),
        space.kustomization("absent", postBuild={"substituteFrom": absent}),
        space.kustomization("misnamed", postBuild={"substitute": {"hyphen-ated": "1"}}),
    )

    strict = await space.refused(name="strict", saying="undefined")
    lacking = await space.refused(name="absent", saying="absent")
    misnamed = await space.refused(name="misnamed", saying="is invalid")

    assert f"ConfigMap/{space.namespace}/a" in condition(strict, "Ready")["message"]
    assert condition(strict, "Ready")["reason"] == "BuildFailed"
    assert "hyphen-ated" in condition(misnamed, "Ready")["message"]
    assert condition(lacking, "Ready")["message"] == (
        f"ConfigMap '{space.namespace}/absent' not found"
    )


async def test_substitution_is_off_without_variables_or_where_disabled(space: Space) -> None:
    repository = space.repository()
    repository.commit(
        {
            "a.yaml": config_map("a", v="${v:=assumed}"),
            "b.yaml": marked("b", "substitute", "disabled", v="${v}"),
        }
    )
    await space.world.apply(
        space.source(repository),
        space.kustomization("with", namePrefix="with-", postBuild={"substitute": {"v": "given"}}),
        space.kustomization(
            "always", namePrefix="always-", postBuild={"substituteStrategy": "Always"}
        ),
        space.kustomization("without", namePrefix="without-", postBuild={"substitute": {}}),
    )
    for name in ("with", "always", "without"):
        await space.ready(name=name)

    found = {
        name: (await space.get(CONFIG_MAP, name))["data"]["v"]
        for name in ("with-a", "with-b", "always-a", "always-b", "without-a")
    }
    assert found == {
        "with-a": "given",
        "with-b": "${v}",
        "always-a": "assumed",
        "always-b": "${v}",
        "without-a": "${v:=assumed}",
    }


async def test_labelled_variables_count_at_once_and_others_later(space: Space) -> None:
    label = {"reconcile.fluxcd.io/watch": "Enabled"}
    for name, labels in (("watched", label), ("unwatched", {})):
        metadata = {"namespace": space.namespace, "labels": labels}
        text = manifest("ConfigMap", name, metadata=metadata, data={name: "1"})
        await space.world.apply(yaml.safe_load(text))
    given = [{"kind": "ConfigMap", "name": name} for name in ("watched", "unwatched")]
    await start(
        space,
        {"a.yaml": config_map("result", v="${watched} ${unwatched}")},
        postBuild={"substituteFrom": given},
    )

    await edit(space, CONFIG_MAP, "unwatched", {"data": {"unwatched": "2"}})
    await asyncio.sleep(1)
    before = await space.get(CONFIG_MAP, "result")
    await edit(space, CONFIG_MAP, "watched", {"data": {"watched": "2"}})

    assert before["data"]["v"] == "1 1"
    await space.world.until(
        CONFIG_MAP, space.namespace, "result", lambda obj: obj["data"]["v"] == "2 2"
    )


async def test_history_keeps_each_outcome(space: Space) -> None:
    first = (await start(space, {"d.yaml": deployment("web")}))["status"]["lastAppliedRevision"]
    broken = deployment("web").replace("replicas: 1", "replicas: many")
    await push(space, {"d.yaml": broken})
    await space.refused(saying="replicas")
    second = await push(space, {"d.yaml": deployment("web")})
    obj = await space.ready(revision=second)

    history = obj["status"]["history"]
    assert [(e["lastReconciledStatus"], e["metadata"]["revision"]) for e in history[1:]] == [
        ("ReconciliationFailed", f"main@sha1:{space.repositories[0].revision('main~1')}")
    ]
    assert history[0]["lastReconciledStatus"] == "ReconciliationSucceeded"
    assert history[0]["metadata"]["revision"] == f"main@sha1:{second}"
    assert history[0]["totalReconciliations"] == 2
    assert history[0]["digest"] != history[1]["digest"]
    assert first in f"main@sha1:{space.repositories[0].revision('main~2')}"


async def test_rbac_names_with_colons_are_kept_and_pruned(space: Space) -> None:
    name = f"penstock:{space.namespace}:reader"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    obj = await start(space, {"role.yaml": yaml.safe_dump(role), "a.yaml": config_map("a")})

    escaped = name.replace(":", "__")
    assert f"_{escaped}_rbac.authorization.k8s.io_ClusterRole" in names(obj)
    await push(space, {"role.yaml": None})
    await space.world.gone(CLUSTER_ROLE, "", name)


async def test_suspended_from_the_start_does_nothing_until_resumed(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a")})
    await space.world.apply(space.source(repository), space.kustomization(suspend=True))
    await space.ready(GIT_REPOSITORY)
    await asyncio.sleep(0.5)
    suspended = await space.get(KUSTOMIZATION, "app")

    await edit(space, KUSTOMIZATION, "app", {"spec": {"suspend": False}})
    await space.ready()

    assert "conditions" not in suspended["status"]
    assert await space.world.exists(CONFIG_MAP, space.namespace, "a")


async def test_string_data_is_applied_and_healed(space: Space) -> None:
    await start(space, {"s.yaml": manifest("Secret", "s", stringData={"word": "one"})})

    await edit(space, SECRET, "s", {"stringData": {"word": "two"}})

    await space.world.until(
        SECRET, space.namespace, "s", lambda obj: dig(obj, "data", "word") == "b25l"
    )
