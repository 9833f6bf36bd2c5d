"""Which of several HelmReleases that name one release has it."""

from pathlib import Path

import msgspec
import pytest

from controllers.helm.owners import ReleaseConflictError
from tests.fakes.helmengine import Failure
from tests.fakes.helmworld import World, installed
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

OLDER, NEWER = "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_older_object_has_the_release(world: World) -> None:
    world.rival("team", "first", created=OLDER, releaseName="app")

    ended = await world.run("spec")

    assert isinstance(ended, ReleaseConflictError)
    assert world.helm.orders == []
    assert world.condition("Stalled") == ("True", "ReleaseConflict", str(ended))
    assert world.condition("Ready")[:2] == ("False", "ReleaseConflict")
    assert "belongs to HelmRelease 'team/first'" in str(ended)
    assert "spec.releaseName" in str(ended)


async def test_newer_object_does_not_disturb(world: World) -> None:
    world.rival("team", "second", created=NEWER, releaseName="app")

    await world.ready("spec")

    assert world.helm.done == ["install"]


async def test_who_has_released_goes_first(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.rival("team", "first", created=OLDER, releaseName="app")

    await world.ready("requested")


async def test_nobody_takes_a_name_in_the_namespace_of_others(world: World) -> None:
    world.rival("attacker", "first", created=OLDER, releaseName="app", storageNamespace="team")

    await world.ready("spec")

    assert world.helm.done == ["install"]


async def test_nobody_keeps_a_name_from_others_in_a_third_namespace(tmp_path: Path) -> None:
    world = World(tmp_path, storageNamespace="shared", releaseName="app")
    world.rival("attacker", "first", created=OLDER, releaseName="app", storageNamespace="shared")

    await world.ready("spec")

    assert world.helm.done == ["install"]


async def test_nobody_keeps_the_release_of_others_from_its_uninstallation(tmp_path: Path) -> None:
    world = await installed(tmp_path, releaseName="app")
    world.rival("attacker", "first", created=OLDER, releaseName="app", storageNamespace="team")
    world.spec(releaseName="else")

    await world.run("spec")

    assert world.helm.done == ["uninstall"]


@pytest.mark.parametrize("exists", ["exists", ""])
async def test_releases_of_other_namespaces_are_not_disclosed(tmp_path: Path, exists: str) -> None:
    world = World(tmp_path, storageNamespace="shared", releaseName="app")
    world.helm.failures["history"] = Failure("secrets is forbidden", recorded=False)
    if exists:
        world.rival("shared", "app", created=OLDER)

    ended = await world.run("spec")

    assert str(ended) == "Could not determine release state: secrets is forbidden"
    assert world.condition("Ready")[:2] == ("False", "StateError")
    assert world.helm.done == []


async def test_conflict_is_told_to_who_can_read_the_records(tmp_path: Path) -> None:
    world = World(tmp_path, storageNamespace="shared", releaseName="app")
    world.rival("shared", "app", created=OLDER)

    ended = await world.run("spec")

    assert isinstance(ended, ReleaseConflictError)
    assert world.helm.done == []


async def test_release_is_left_to_who_made_it_from_another_namespace(tmp_path: Path) -> None:
    other = await installed(tmp_path, storageNamespace="shared", releaseName="app")
    (tmp_path / "second").mkdir()
    world = World(tmp_path / "second", storageNamespace="shared", releaseName="app")
    found = msgspec.structs.replace(
        other.obj,
        metadata=msgspec.structs.replace(other.obj.metadata, namespace="other"),
    )
    world.objects["HelmRelease", ObjectKey("other", "app")] = found
    world.owners.changed(Change("ADDED", ObjectKey("other", "app"), None, found))

    ended = await world.run("spec")

    assert isinstance(ended, ReleaseConflictError)
    assert "a HelmRelease of another namespace" in str(ended)


async def test_release_is_left_to_the_namespace_of_its_records(tmp_path: Path) -> None:
    world = await installed(tmp_path, storageNamespace="shared", releaseName="app")
    world.rival("shared", "app", created=NEWER)

    ended = await world.run("requested")

    assert isinstance(ended, ReleaseConflictError)
    assert "a HelmRelease of another namespace" in str(ended)
    assert world.helm.done == []


@pytest.mark.parametrize("how", ["deleted", "suspended", "renamed"])
async def test_the_other_is_woken_when_its_turn_comes(world: World, how: str) -> None:
    world.rival("team", "first", created=OLDER, releaseName="app")
    await world.run("spec")
    world.owners.changed(world.appears())
    world.woken.clear()

    if how == "deleted":
        world.lose("team", "first")
    elif how == "suspended":
        world.rival("team", "first", created=OLDER, releaseName="app", suspend=True)
    else:
        world.rival("team", "first", created=OLDER, releaseName="else")

    assert world.woken == ["team/app release"]
    await world.ready("release")
    assert world.helm.done == ["install"]


@pytest.mark.parametrize(
    "spec",
    [
        {"releaseName": "else"},
        {"releaseName": "app", "storageNamespace": "else"},
        {"releaseName": "app", "targetNamespace": "else", "storageNamespace": "else"},
        {"releaseName": "app", "kubeConfig": {"secretRef": {"name": "far"}}},
    ],
)
async def test_other_releases_are_no_conflict(world: World, spec: dict[str, object]) -> None:
    world.rival("team", "first", created=OLDER, **spec)

    await world.ready("spec")

    assert world.helm.done == ["install"]


async def test_who_lost_it_uninstalls_nothing(world: World) -> None:
    world.rival("team", "first", created=OLDER, releaseName="app")
    await world.run("spec")

    assert await world.delete() is None

    assert world.helm.orders == []


async def test_release_that_another_has_by_now_is_not_uninstalled(tmp_path: Path) -> None:
    world = await installed(tmp_path, storageNamespace="shared", releaseName="app")
    world.rival("shared", "app", created=NEWER)

    assert await world.delete() is None

    assert world.helm.orders == []


async def test_release_of_an_earlier_name_is_uninstalled(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.rival("team", "first", created=OLDER, releaseName="taken")
    world.spec(releaseName="taken")

    assert isinstance(await world.run("spec"), ReleaseConflictError)
    await world.delete()

    assert world.helm.done == ["uninstall"]


async def test_release_that_another_has_by_now_survives_a_new_name(tmp_path: Path) -> None:
    world = await installed(tmp_path, storageNamespace="shared", releaseName="app")
    world.rival("shared", "app", created=NEWER)
    world.spec(releaseName="else")

    await world.run("spec")
    await world.run("spec")

    assert "uninstall" not in world.helm.done
    assert world.helm.done[-1] == "install"
