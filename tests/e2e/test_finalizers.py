"""Objects that left a build while finalizers hold them: listed, followed, and never lost."""

from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
    revision_of,
)
from tests.fakes.gitserver import Repository
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")


def held_config_map(**data: str) -> str:
    held = yaml.safe_load(config_map("held", **data))
    held["metadata"]["finalizers"] = ["example.com/hold"]
    return yaml.safe_dump(held)


async def pruned(space: Space, **spec: Any) -> Repository:
    """Apply an object with a finalizer, then drop it from the build."""
    repository = space.repository()
    files = {"a.yaml": config_map("kept", v="1"), "b.yaml": held_config_map(v="1")}
    commit = repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization(**spec))
    await space.ready(revision=commit)
    await space.ready(revision=await next_commit(space, repository, {"b.yaml": None}))
    return repository


async def next_commit(space: Space, repository: Repository, files: dict[str, str | None]) -> str:
    commit = repository.commit(files)
    await space.request(GIT_REPOSITORY)
    return commit


async def free(space: Space) -> None:
    change: Json = {"metadata": {"finalizers": None}}
    await space.world.api.patch(CONFIG_MAP, "held", space.namespace, change, strategy="merge")


def entries(obj: Json) -> list[str]:
    return [entry["id"] for entry in dig(obj, "status", "inventory", "entries", default=[])]


async def nothing_is_leaving(space: Space) -> Json:
    return await space.world.until(
        KUSTOMIZATION, space.namespace, "app", lambda obj: not condition(obj, "Pruned")
    )


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
