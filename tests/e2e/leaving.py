"""What the tests of objects share that finalizers hold."""

from typing import Any

import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
)
from tests.fakes.gitserver import Repository
from toolkit.objects import Json, dig


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
