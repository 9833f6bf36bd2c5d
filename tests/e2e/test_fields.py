"""Fields of a Kustomization reach the stages that they are for, seen on a real API server.

What each of them means is tried where it is decided: in builds (``loopback/kustomize``), and where
objects are applied and pruned (``contract/apply``).
"""

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
)
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

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

    obj = await space.world.until(
        CONFIG_MAP, space.namespace, "a", lambda obj: dig(obj, "data", "by") == "two"
    )
    assert obj["metadata"]["labels"][f"{MARK}/name"] == "two"


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
    before = space.noted("kustomize")
    await until(lambda: space.noted("kustomize") > before)  # it has looked again
    await edit(space, CONFIG_MAP, "a", {"metadata": {"finalizers": None}})

    what = f"ConfigMap/{space.namespace}/a"
    assert condition(waiting, "Ready")["message"] == f"waiting for termination of {what}"
    assert still_there["metadata"]["deletionTimestamp"]
    await space.world.gone(KUSTOMIZATION, space.namespace, "app")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "a")
    assert [event.get("count", 1) for event in await told(space, f"{what} deleted")] == [1]


async def test_immutable_field_is_changed_only_by_force(space: Space) -> None:
    def web(selector: str) -> str:
        obj = yaml.safe_load(deployment("web"))
        obj["spec"]["selector"]["matchLabels"] = {"app": selector}
        obj["spec"]["template"]["metadata"]["labels"] = {"app": selector}
        return yaml.safe_dump(obj)

    await start(space, {"d.yaml": web("one")})
    first = await space.get(DEPLOYMENT, "web")
    await push(space, {"d.yaml": web("two")})
    refused = await space.refused(saying="immutable")
    second = await space.get(DEPLOYMENT, "web")

    await edit(space, KUSTOMIZATION, "app", {"spec": {"force": True}})
    await space.ready()

    third = await space.get(DEPLOYMENT, "web")
    assert f"Deployment/{space.namespace}/web" in condition(refused, "Ready")["message"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert third["metadata"]["uid"] != first["metadata"]["uid"]
    assert third["spec"]["selector"]["matchLabels"] == {"app": "two"}


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


@pytest.mark.parametrize(("mark", "value"), [("ssa", "Ignore"), ("reconcile", "disabled")])
async def test_object_that_its_manifest_leaves_alone_leaves_the_inventory(
    space: Space, mark: str, value: str
) -> None:
    files = {"taken.yaml": config_map("taken", v="1"), "never.yaml": marked("never", mark, value)}
    first = await start(space, files)
    commit = await push(space, {"taken.yaml": marked("taken", mark, value, v="2")})
    second = await space.ready(revision=commit)
    gone: dict[str, str | None] = {"taken.yaml": None, "never.yaml": None}
    commit = await push(space, {**gone, "last.yaml": config_map("last", v="1")})
    third = await space.ready(revision=commit)

    assert names(first) == {f"{space.namespace}_taken__ConfigMap"}
    assert names(second) == set()
    assert names(third) == {f"{space.namespace}_last__ConfigMap"}
    assert (await space.get(CONFIG_MAP, "taken"))["data"] == {"v": "1"}
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "never")


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


async def test_labelled_variables_count_at_once_and_others_later(space: Space) -> None:
    label = {"reconcile.fluxcd.io/watch": "Enabled"}
    for name, labels in (("watched", label), ("unwatched", {}), ("marker", label)):
        metadata = {"namespace": space.namespace, "labels": labels}
        text = manifest("ConfigMap", name, metadata=metadata, data={name: "1"})
        await space.world.apply(yaml.safe_load(text))
    given = [{"kind": "ConfigMap", "name": name} for name in ("watched", "unwatched")]
    await start(
        space,
        {"a.yaml": config_map("result", v="${watched:=}-${unwatched:=}-${marker:=}")},
        postBuild={"substituteFrom": given},
    )
    marker = {"substituteFrom": [{"kind": "ConfigMap", "name": "marker"}]}
    await space.world.apply(space.kustomization("other", namePrefix="other-", postBuild=marker))
    await space.ready(name="other")

    await edit(space, CONFIG_MAP, "unwatched", {"data": {"unwatched": "2"}})
    # One watch tells of both; had it told of the first, its pass would have begun before.
    await edit(space, CONFIG_MAP, "marker", {"data": {"marker": "2"}})
    await shown(space, "other-result", "--2")
    before = await space.get(CONFIG_MAP, "result")
    await edit(space, CONFIG_MAP, "watched", {"data": {"watched": "2"}})
    await shown(space, "result", "2-2-")
    obj = await space.ready()

    assert before["data"]["v"] == "1-1-"
    assert len(obj["status"]["history"]) == 2


async def shown(space: Space, name: str, value: str) -> None:
    await space.world.until(
        CONFIG_MAP, space.namespace, name, lambda obj: dig(obj, "data", "v") == value
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


async def test_suspended_from_the_start_does_nothing_until_resumed(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a")})
    await space.world.apply(space.source(repository), space.kustomization(suspend=True))
    await space.ready(GIT_REPOSITORY)
    await until(lambda: space.noted("kustomize", saying="suspended for this object"))
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
