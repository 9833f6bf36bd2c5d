"""Objects that left a build while finalizers hold them: listed, followed, and never lost."""

import pytest

from tests.e2e.conftest import CONFIG_MAP, KUSTOMIZATION, Space, condition, revision_of
from tests.e2e.leaving import (
    entries,
    free,
    held_config_map,
    next_commit,
    nothing_is_leaving,
    pruned,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_object_stays_in_the_inventory_until_its_finalizers_are_gone(
    space: Space,
) -> None:
    await pruned(space)
    waiting = await space.get(KUSTOMIZATION, "app")
    await free(space)
    done = await nothing_is_leaving(space)

    assert len(entries(waiting)) == 2
    assert condition(waiting, "Pruned")["reason"] == "WaitingForFinalizers"
    assert condition(waiting, "Pruned")["message"] == (
        f"waiting for finalizers of ConfigMap/{space.namespace}/held (example.com/hold)"
    )
    assert len(entries(done)) == 1


async def test_an_object_that_comes_back_while_it_is_leaving_is_created_anew(space: Space) -> None:
    repository = await pruned(space)
    leaving = await space.get(CONFIG_MAP, "held")

    commit = await next_commit(space, repository, {"b.yaml": held_config_map(v="2")})
    await space.world.until(
        KUSTOMIZATION, space.namespace, "app", lambda obj: commit in revision_of(obj)
    )
    await free(space)
    created = await space.world.until(
        CONFIG_MAP,
        space.namespace,
        "held",
        lambda obj: bool(obj["metadata"]["uid"] != leaving["metadata"]["uid"]),
    )
    done = await space.ready(revision=commit)

    assert leaving["metadata"]["deletionTimestamp"]
    assert created["data"] == {"v": "2"}
    assert f"{space.namespace}_held__ConfigMap" in entries(done)
    await free(space)


async def test_a_deleted_kustomization_waits_for_finalizers_where_its_policy_says_so(
    space: Space,
) -> None:
    await pruned(space, deletionPolicy="WaitForTermination")

    await space.world.api.delete(KUSTOMIZATION, "app", space.namespace)
    await space.world.until(
        KUSTOMIZATION,
        space.namespace,
        "app",
        lambda obj: f"termination of ConfigMap/{space.namespace}/held" in str(obj["status"]),
    )
    await free(space)

    await space.world.gone(KUSTOMIZATION, space.namespace, "app")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "held")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "kept")
