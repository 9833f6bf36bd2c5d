"""From a commit to running objects: applied, changed, healed, pruned, refused, suspended."""

import pytest

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
    deployment,
)
from tests.tools.waiting import until
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def start(space: Space, files: dict[str, str], **spec: object) -> str:
    repository = space.repository()
    commit = repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization(**spec))
    await space.ready(revision=commit)
    return commit


async def fetch_now(space: Space) -> None:
    await space.request(GIT_REPOSITORY)


async def test_commit_becomes_healthy_objects(space: Space) -> None:
    commit = await start(space, {"deploy.yaml": deployment("web", replicas=2)}, wait=True)

    obj = await space.get(KUSTOMIZATION, "app")
    source = await space.get(GIT_REPOSITORY, "app")
    web = await space.get(DEPLOYMENT, "web")
    assert condition(obj, "Ready")["message"] == f"Applied revision: main@sha1:{commit}"
    assert condition(source, "Ready")["message"] == (
        f"stored artifact for revision 'main@sha1:{commit}'"
    )
    assert not condition(obj, "Reconciling")
    assert web["status"]["availableReplicas"] == 2
    assert web["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "app"
    assert obj["status"]["inventory"]["entries"] == [
        {"id": f"{space.namespace}_web_apps_Deployment", "v": "v1"}
    ]
    assert obj["status"]["history"][0]["lastReconciledStatus"] == "ReconciliationSucceeded"


async def test_new_commit_is_rolled_out_and_what_it_drops_is_pruned(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("kept", v="1"), "b.yaml": config_map("dropped", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready()

    commit = repository.commit({"a.yaml": config_map("kept", v="2"), "b.yaml": None})
    await fetch_now(space)
    obj = await space.ready(revision=commit)

    assert (await space.get(CONFIG_MAP, "kept"))["data"] == {"v": "2"}
    await space.world.gone(CONFIG_MAP, space.namespace, "dropped")
    assert [entry["id"] for entry in obj["status"]["inventory"]["entries"]] == [
        f"{space.namespace}_kept__ConfigMap"
    ]


async def test_commit_that_changes_nothing_of_a_build_moves_its_revision_alone(
    space: Space,
) -> None:
    repository = space.repository()
    repository.commit({"app/a.yaml": config_map("settings", v="1"), "README.md": "1"})
    await space.world.apply(space.source(repository), space.kustomization(path="./app", wait=True))
    await space.ready()
    before = await space.get(CONFIG_MAP, "settings")

    elsewhere = repository.commit({"README.md": "2"})
    await fetch_now(space)
    obj = await space.ready(revision=elsewhere)
    untouched = await space.get(CONFIG_MAP, "settings")
    here = repository.commit({"app/a.yaml": config_map("settings", v="2")})
    await fetch_now(space)
    await space.ready(revision=here)

    [entry] = obj["status"]["history"]
    assert obj["status"]["lastAttemptedRevision"] == f"main@sha1:{elsewhere}"
    assert (entry["metadata"]["revision"], entry["totalReconciliations"]) == (
        f"main@sha1:{elsewhere}",
        2,
    )
    assert untouched["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"v": "2"}


async def test_who_lost_an_object_to_another_applier_says_so(space: Space) -> None:
    await start(space, {"a.yaml": config_map("shared", colour="green")})
    other = space.repository("other")
    commit = other.commit({"a.yaml": config_map("shared", colour="red")})
    reference = {"kind": "GitRepository", "name": "other"}
    await space.world.apply(
        space.source(other, name="other"), space.kustomization(name="other", sourceRef=reference)
    )
    await space.ready(name="other", revision=commit)

    lost = await space.world.until(
        KUSTOMIZATION, space.namespace, "app", lambda obj: bool(condition(obj, "Contested"))
    )
    await space.request(KUSTOMIZATION, "app")
    await space.world.until(
        KUSTOMIZATION, space.namespace, "other", lambda obj: bool(condition(obj, "Contested"))
    )
    back = await space.world.until(
        KUSTOMIZATION, space.namespace, "app", lambda obj: not condition(obj, "Contested")
    )

    assert condition(lost, "Contested")["reason"] == "OtherApplier"
    assert (
        f"ConfigMap/{space.namespace}/shared by Kustomization {space.namespace}/other"
        in condition(lost, "Contested")["message"]
    )
    assert condition(lost, "Ready")["status"] == condition(back, "Ready")["status"] == "True"
    shared = await space.get(CONFIG_MAP, "shared")
    assert shared["data"]["colour"] == "green"


async def test_nothing_is_pruned_without_prune(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("kept", v="1"), "b.yaml": config_map("left", v="1")})
    await space.world.apply(space.source(repository), space.kustomization(prune=False))
    await space.ready()

    commit = repository.commit({"b.yaml": None})
    await fetch_now(space)
    await space.ready(revision=commit)

    assert await space.world.exists(CONFIG_MAP, space.namespace, "left")


@pytest.mark.parametrize("how", ["edited", "deleted"])
async def test_change_by_hand_is_healed_when_it_happens(space: Space, how: str) -> None:
    await start(space, {"a.yaml": config_map("settings", colour="green")})

    if how == "edited":
        await space.world.api.patch(
            CONFIG_MAP,
            "settings",
            space.namespace,
            {"data": {"colour": "red"}},
            strategy="merge",
            manager="kubectl-edit",
        )
    else:
        await space.world.api.delete(CONFIG_MAP, "settings", space.namespace)

    await space.world.until(
        CONFIG_MAP,
        space.namespace,
        "settings",
        lambda obj: (
            dig(obj, "data", "colour") == "green" and not dig(obj, "metadata", "deletionTimestamp")
        ),
    )


async def test_foreign_fields_are_left_alone(space: Space) -> None:
    await start(space, {"a.yaml": config_map("settings", colour="green")})
    await space.world.api.patch(
        CONFIG_MAP,
        "settings",
        space.namespace,
        {"metadata": {"annotations": {"example.org/note": "mine"}}},
        strategy="merge",
    )

    await space.request()

    obj = await space.get(CONFIG_MAP, "settings")
    assert obj["metadata"]["annotations"] == {"example.org/note": "mine"}


async def test_broken_commit_is_refused_whole_and_says_why(space: Space) -> None:
    repository = space.repository()
    first = repository.commit({"a.yaml": config_map("one", v="1"), "d.yaml": deployment("web")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=first)

    broken = deployment("web").replace("replicas: 1", "replicas: many")
    repository.commit({"a.yaml": config_map("one", v="2"), "d.yaml": broken})
    await fetch_now(space)
    obj = await space.refused(saying="Deployment/")

    message = condition(obj, "Ready")["message"]
    assert "dry-run failed" in message
    assert "replicas" in message
    assert (await space.get(CONFIG_MAP, "one"))["data"] == {"v": "1"}
    assert first in obj["status"]["lastAppliedRevision"]


async def test_suspended_is_left_alone_and_resumed_is_healed(space: Space) -> None:
    await start(space, {"a.yaml": config_map("settings", colour="green")})
    api, namespace = space.world.api, space.namespace
    other = space.kustomization("other", namePrefix="other-")
    await space.world.apply(other)
    await space.ready(name="other")
    await space.suspend()
    red = {"data": {"colour": "red"}}

    await api.patch(CONFIG_MAP, "settings", namespace, red, strategy="merge")
    # Changes arrive in their order, so the first was seen when the second has been healed.
    await api.patch(CONFIG_MAP, "other-settings", namespace, red, strategy="merge")
    await space.world.until(
        CONFIG_MAP, namespace, "other-settings", lambda obj: dig(obj, "data", "colour") == "green"
    )

    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"colour": "red"}
    await api.patch(KUSTOMIZATION, "app", namespace, {"spec": {"suspend": False}}, strategy="merge")
    await space.world.until(
        CONFIG_MAP, namespace, "settings", lambda obj: dig(obj, "data", "colour") == "green"
    )


async def test_deleted_kustomization_takes_its_objects_along(space: Space) -> None:
    await start(space, {"a.yaml": config_map("settings", colour="green")})

    await space.world.api.delete(KUSTOMIZATION, "app", space.namespace)

    await space.world.gone(CONFIG_MAP, space.namespace, "settings")
    await space.world.gone(KUSTOMIZATION, space.namespace, "app")


async def test_interval_reconcile_changes_nothing(space: Space) -> None:
    await start(space, {"a.yaml": config_map("settings", v="1")}, interval="1s")
    before = await space.get(KUSTOMIZATION, "app")
    settings = await space.get(CONFIG_MAP, "settings")

    finished = noted(space)
    await until(lambda: noted(space) >= finished + 3)

    after = await space.get(KUSTOMIZATION, "app")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (await space.get(CONFIG_MAP, "settings"))["metadata"]["resourceVersion"] == (
        settings["metadata"]["resourceVersion"]
    )


def noted(space: Space) -> int:
    """Return how many passes over the Kustomization have succeeded."""
    return space.noted("kustomize", saying="Reconciliation finished")


async def test_status_is_patched_twice_in_a_first_reconcile(space: Space) -> None:
    repository = space.repository()
    repository.commit({"deploy.yaml": deployment("web")})
    seen: list[str] = []
    await space.world.apply(
        space.source(repository), space.kustomization("first", namePrefix="first-")
    )
    await space.ready(name="first")  # so what there is of the source is known
    await space.world.apply(space.kustomization(wait=True))

    def note(obj: Json) -> bool:
        version = obj["metadata"]["resourceVersion"]
        if version not in seen:
            seen.append(version)
        return condition(obj, "Ready").get("status") == "True"

    await space.world.until(KUSTOMIZATION, space.namespace, "app", note)

    # created, finalizer, progressing, ready
    assert len(seen) <= 4


async def test_events_tell_what_was_changed(space: Space) -> None:
    await start(space, {"a.yaml": config_map("settings", v="1")})

    event = await space.told("settings created")

    assert f"ConfigMap/{space.namespace}/settings created" in event["message"]
    assert event["reason"] == "Progressing"
    finished = await space.told("Reconciliation finished in")
    assert (finished["type"], finished["reason"]) == ("Normal", "ReconciliationSucceeded")
    assert "next run in" in finished["message"]
    selector = "involvedObject.kind=Kustomization"
    events = await space.world.api.list(EVENT, space.namespace, field_selector=selector)
    assert {each["reason"] for each in events} == {"Progressing", "ReconciliationSucceeded"}
