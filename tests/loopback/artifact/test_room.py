"""The room of a namespace in buckets of real S3, Google and Azure servers."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.fakes.bucketreplicas import replicas
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.quota import QuotaError
from toolkit.artifact.room import Limited
from toolkit.artifact.store import Owner
from toolkit.remote.objectstore.objectstore import ObjectStore, Place

SIZE = 1000
Replica = Callable[[], Awaitable[BucketStorage]]


@pytest.fixture
async def replica(tmp_path: Path, place: Place) -> AsyncIterator[Replica]:
    """Return a function that starts a replica with room for two files."""
    async with ObjectStore(place, timeout=30) as bucket, replicas(tmp_path) as start:
        yield lambda: start(quick=bucket, bulk=bucket, room=Limited(2 * SIZE))


async def keep(store: BucketStorage, owner: Owner, directory: Path) -> None:
    file = directory / "file"
    file.write_bytes(os.urandom(SIZE))
    await store.store_file(owner, revision="1", filename="1.tar.gz", file=file)


def named(name: str, *, kind: str = "Bucket", namespace: str = "apps") -> Owner:
    return Owner(kind=kind, namespace=namespace, name=name)


async def test_new_replica_knows_what_is_stored(replica: Replica, tmp_path: Path) -> None:
    first = await replica()
    await keep(first, named("a"), tmp_path)
    await keep(first, named("b", kind="GitRepository"), tmp_path)

    second = await replica()
    with pytest.raises(QuotaError, match="namespace 'apps'"):
        await keep(second, named("c"), tmp_path)
    await keep(second, named("c", namespace="others"), tmp_path)
    await second.remove(named("a"))
    await keep(second, named("c"), tmp_path)

    assert (await second.usage("Bucket", "apps")) == {named("c"): SIZE}
