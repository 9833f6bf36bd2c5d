"""Whom an installation takes objects from, and what it asks before."""

from typing import Any

import pytest

from tests.contract.helm.world import CONFIG_MAP, MANAGER, Noting, World, hook, statuses
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADOPTING: Json = {"takeOwnership": True, "forceConflicts": True, "serverSideApply": "true"}


def managers(world: World) -> set[tuple[str, str]]:
    """Return who manages fields of the release's ConfigMap, and how."""
    found = world.config_map()
    assert found is not None
    return {(each["manager"], each["operation"]) for each in found["metadata"]["managedFields"]}


async def test_installation_that_takes_objects_over_looks_for_none(world: World) -> None:
    second = CONFIG_MAP.replace("name: {{ .Release.Name }}", "name: new")
    world.make("api/v1 configmaps", {"metadata": {"name": "app"}, "data": {"colour": "white"}})
    acting = Noting(world.api)

    await world.with_(acting=acting).run(
        "install", world.chart(templates__new_yaml=second), **ADOPTING
    )

    asked = sorted(each for each in acting.asked if each.endswith((" app", " new")))
    assert asked == ["PATCH app", "PATCH new"]
    assert world.colour() == "red"
    assert world.config_map("new") is not None


async def test_fields_that_the_manager_had_updated_become_applied(world: World) -> None:
    world.make(
        f"api/v1 configmaps?fieldManager={MANAGER}",
        {"metadata": {"name": "app"}, "data": {"colour": "white", "other": "x"}},
    )

    await world.run("install", world.chart(), **ADOPTING)

    found = world.config_map()
    assert found is not None
    assert managers(world) == {(MANAGER, "Apply")}
    assert found["data"] == {"colour": "red"}


async def test_fields_of_others_stay_theirs(world: World) -> None:
    world.make(
        "api/v1 configmaps?fieldManager=kubectl",
        {"metadata": {"name": "app"}, "data": {"colour": "white", "other": "x"}},
    )

    await world.run("install", world.chart(), **ADOPTING)

    found = world.config_map()
    assert found is not None
    assert found["data"] == {"colour": "red", "other": "x"}
    assert managers(world) == {(MANAGER, "Apply"), ("kubectl", "Update")}


@pytest.mark.parametrize(
    "options", [{**ADOPTING, "takeOwnership": False}, {**ADOPTING, "forceConflicts": False}]
)
async def test_installation_looks_for_objects_that_it_may_not_take(
    world: World, options: dict[str, Any]
) -> None:
    acting = Noting(world.api)

    await world.with_(acting=acting).run("install", world.chart(), **options)

    assert [each for each in acting.asked if each.endswith(" app")] == ["GET app", "PATCH app"]


def contested(world: World) -> str:
    """Make an object, and return a hook that would give it another colour."""
    world.make(
        "api/v1 configmaps?fieldManager=kubectl",
        {"metadata": {"name": "before"}, "data": {"colour": "white"}},
    )
    made = hook("before", "pre-install", policy="hook-succeeded")
    return made.replace('"kind"', '"data": {"colour": "red"}, "kind"', 1)


async def test_hooks_take_nothing_by_force(world: World) -> None:
    before = contested(world)
    chart = world.chart(templates__before_yaml=before)

    error = await world.fails("install", chart, **ADOPTING)

    assert "conflict" in str(error)
    assert statuses(error.outcome) == [(1, "failed")]
    found = world.config_map("before")
    assert found is not None
    assert found["data"] == {"colour": "white"}


async def test_chart_without_objects_forces_no_hook(world: World) -> None:
    before = contested(world)
    chart = world.chart(templates__before_yaml=before, templates__configmap_yaml="")

    error = await world.fails("install", chart, **ADOPTING)

    assert "conflict" in str(error)
