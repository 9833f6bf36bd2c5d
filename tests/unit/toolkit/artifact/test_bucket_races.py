"""A bucket whose objects go or change while they are asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.bucketobjects import MemoryBucket
from tests.fakes.bucketreplicas import OWNER, replicas, stored
from toolkit.artifact.bucket import BucketStorage
from toolkit.errors import TransientError


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
async def two(
    bucket: MemoryBucket, tmp_path: Path
) -> AsyncIterator[tuple[BucketStorage, BucketStorage]]:
    async with replicas(tmp_path, idle_copies=100) as start:
        storages = [
            await start(
                quick=bucket,
                bulk=bucket,
                idle_bytes=1 << 20,
                retention_records=2,
                now=lambda: bucket.now,
            )
            for _ in range(2)
        ]
        yield storages[0], storages[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.yaml").write_text("a: 1\n")
    return tree


async def test_an_artifact_that_went_is_not_given_out(
    two: tuple[BucketStorage, BucketStorage], tree: Path
) -> None:
    storage, other = two
    artifact = await stored(storage, tree)
    await storage.remove(OWNER)

    with pytest.raises(TransientError, match="is not in the store any more"):
        async with other.local(artifact):
            pytest.fail("it was given out")


async def test_an_object_that_never_rests_is_no_reason_to_say_that_there_is_none(
    two: tuple[BucketStorage, BucketStorage], bucket: MemoryBucket, tree: Path
) -> None:
    storage, other = two
    artifact = await stored(storage, tree)
    key = f"fleet/{artifact.path}"

    def replace(operation: str, asked: str) -> None:
        if (operation, asked) == ("read", key):
            bucket.put(key, bucket.content[key][1])

    bucket.before = replace

    with pytest.raises(TransientError, match="is being replaced"):
        await other.open(artifact.path)
