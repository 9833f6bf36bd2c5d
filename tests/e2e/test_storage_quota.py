"""A namespace that stores all it may gets no more; its neighbours do; a restart forgets nothing."""

import os

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import GIT_REPOSITORY, Space, World, condition
from tests.e2e.sources import artifact_of
from toolkit.objects import Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

SIZE = 400 << 10
"""The rough world's quota has room for one of this size."""


def large(space: Space, name: str) -> Json:
    """Return a GitRepository of content that cannot be packed."""
    repository = space.repository(name)
    repository.commit({"data.bin": os.urandom(SIZE)})
    return space.source(repository, name)


async def metric(world: World, name: str, namespace: str) -> float:
    """Return what the source component says about a namespace; 0 if nothing."""
    async with aiohttp.ClientSession() as web, web.get(world.stack.metrics("source")) as reply:
        text = await reply.text()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels.get("namespace") == namespace:
                return float(sample.value)
    return 0.0


async def test_full_namespace_gets_no_more_until_there_is_room(space: Space) -> None:
    world = space.world
    await world.apply(large(space, "first"))
    first = await space.ready(GIT_REPOSITORY, "first")

    await world.apply(large(space, "second"))
    refused = await space.refused(
        GIT_REPOSITORY, "second", saying=f"artifacts of namespace '{space.namespace}' take"
    )
    neighbour = Space(world=world, namespace=f"{space.namespace}-other")
    metadata = {"name": neighbour.namespace}
    await world.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, large(neighbour, "first")
    )
    await neighbour.ready(GIT_REPOSITORY, "first")
    await world.stack.restart("source")
    await space.request(GIT_REPOSITORY, "second")
    again = await space.get(GIT_REPOSITORY, "second")
    still = await space.get(GIT_REPOSITORY, "first")
    used = await metric(world, "penstock_artifact_stored_bytes", space.namespace)
    refusals = await metric(world, "penstock_artifact_quota_refusals_total", space.namespace)
    await world.api.delete(GIT_REPOSITORY, "first", space.namespace)
    await space.ready(GIT_REPOSITORY, "second")

    ready = condition(refused, "Ready")
    assert ready["reason"] == "StorageQuotaExceeded"
    assert "--storage-namespace-quota" in ready["message"]
    assert condition(refused, "StorageOperationFailed")["status"] == "True"
    assert condition(again, "Ready")["reason"] == "StorageQuotaExceeded"
    assert artifact_of(still)["digest"] == artifact_of(first)["digest"]
    assert used == artifact_of(first)["size"]
    assert refusals >= 1


async def test_sources_that_come_at_once_share_one_room(space: Space) -> None:
    names = [f"source-{number}" for number in range(4)]
    folder = space.world.stack.layout.storage / "gitrepository" / space.namespace

    def settled(obj: Json) -> bool:
        return condition(obj, "Ready").get("status") in {"True", "False"}

    await space.world.apply(*(large(space, name) for name in names))
    until = space.world.until
    found = [await until(GIT_REPOSITORY, space.namespace, name, settled) for name in names]
    files = [each for each in folder.glob("*/[!.]*.tar.gz") if not each.is_symlink()]

    reasons = sorted(condition(each, "Ready")["reason"] for each in found)
    assert reasons == ["StorageQuotaExceeded"] * 3 + ["Succeeded"]
    assert len(files) == 1
