"""Artifacts in a bucket: what is asked of it, and what is left of whom at any moment."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import structs

from crds.meta import Artifact
from tests.fakes.bucketobjects import KilledError, MemoryBucket
from tests.fakes.bucketreplicas import IGNORE, OWNER, replicas, served, stored
from tests.fakes.bucketreplicas import Start as Replica
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.store import Owner, Store
from toolkit.errors import StalledError, TransientError

HERE = "gitrepository/apps/web"


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
async def replica(bucket: MemoryBucket, tmp_path: Path) -> AsyncIterator[Replica]:
    """Return a function that starts a replica of the bucket."""
    async with replicas(tmp_path, idle_copies=100) as start:

        async def started(*, cached: int = 1 << 20, records: int = 2) -> BucketStorage:
            return await start(
                quick=bucket,
                bulk=bucket,
                idle_bytes=cached,
                retention_records=records,
                now=lambda: bucket.now,
            )

        yield started


@pytest.fixture
async def storage(replica: Replica) -> BucketStorage:
    return await replica()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.yaml").write_text("a: 1\n")
    return tree


async def kept(
    storage: BucketStorage, tmp_path: Path, content: bytes, filename: str = "app-1.0.0.tgz"
) -> Artifact:
    file = tmp_path / "file"
    file.write_bytes(content)
    return await storage.store_file(OWNER, revision="1", filename=filename, file=file)


def test_a_bucket_is_a_store(storage: BucketStorage) -> None:
    store: Store = storage

    assert store is storage


async def test_an_artifact_lies_where_flux_puts_it(
    storage: BucketStorage, bucket: MemoryBucket, tree: Path
) -> None:
    artifact = await stored(storage, tree)

    _, data = bucket.content[f"fleet/{HERE}/abc.tar.gz"]
    assert artifact.path == f"{HERE}/abc.tar.gz"
    assert artifact.url == f"http://artifacts.test/{HERE}/abc.tar.gz"
    assert artifact.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert artifact.size == len(data)
    assert artifact.last_update_time == "1970-01-12T13:46:40Z"
    assert await served(storage, artifact.path) == data


async def test_another_replica_has_it_at_once(
    storage: BucketStorage, replica: Replica, tree: Path
) -> None:
    artifact = await stored(storage, tree)
    other = await replica()

    content = await served(other, artifact.path)

    assert await other.intact(artifact)
    assert content is not None
    async with other.local(artifact) as path:
        assert path.read_bytes() == content


async def test_an_idle_pass_costs_one_head(
    storage: BucketStorage, bucket: MemoryBucket, tree: Path
) -> None:
    artifact = await stored(storage, tree)
    await storage.collect(OWNER, current=artifact)
    bucket.operations()

    for _ in range(3):
        assert await storage.intact(artifact)
        assert await storage.collect(OWNER, current=artifact) == ()

    assert bucket.operations() == ["head"] * 3


async def test_a_new_pod_asks_for_no_content(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tree: Path
) -> None:
    artifact = await stored(storage, tree)
    fresh = await replica()
    bucket.operations()

    assert await fresh.intact(artifact)

    assert bucket.calls == [
        ("head", f"fleet/{HERE}/abc.tar.gz"),
        ("read", f"fleet/{HERE}/.digest-abc.tar.gz"),
    ]


async def test_content_that_is_there_is_not_written_again(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tree: Path
) -> None:
    first = await stored(storage, tree)
    fresh = await replica()
    bucket.now += 1000
    bucket.operations()

    again = await stored(fresh, tree)

    assert again == first
    assert f"fleet/{HERE}/abc.tar.gz" not in [key for what, key in bucket.calls if what == "write"]


async def test_the_same_revision_with_other_content_replaces_it(
    storage: BucketStorage, replica: Replica, tree: Path
) -> None:
    other = await replica()
    first = await stored(storage, tree)
    assert await served(other, first.path)
    (tree / "b.yaml").write_text("b: 1\n")

    second = await stored(storage, tree)

    assert await other.intact(second)
    assert not await other.intact(first)
    content = await served(other, second.path)
    assert content is not None
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == second.digest


async def test_the_link_leads_to_the_newest(
    storage: BucketStorage, replica: Replica, tmp_path: Path
) -> None:
    await kept(storage, tmp_path, b"one", "app-1.0.0.tgz")
    await kept(storage, tmp_path, b"two", "app-1.0.1.tgz")

    assert await served(await replica(), f"{HERE}/latest.tar.gz") == b"two"
    assert await served(storage, f"{HERE}/app-latest.tgz") is None


async def test_a_link_leads_nowhere_else(storage: BucketStorage, bucket: MemoryBucket) -> None:
    bucket.put("fleet/gitrepository/infra/dns/x", b"secret")

    for target in (b"../dns/x", b"../../infra/dns/x", b"\xff", b"", b"latest.tar.gz", b".digest-x"):
        bucket.put(f"fleet/{HERE}/.link-latest.tar.gz", target)
        assert await served(storage, f"{HERE}/latest.tar.gz") is None


@pytest.mark.parametrize(
    "path", ["", "a/b/c", f"{HERE}/.digest-abc.tar.gz", f"{HERE}/../x", "/etc/passwd/x/y"]
)
async def test_nothing_else_is_served(
    storage: BucketStorage, bucket: MemoryBucket, tree: Path, path: str
) -> None:
    artifact = await stored(storage, tree)
    bucket.operations()

    assert await storage.open(path) is None
    assert not await storage.intact(structs.replace(artifact, path=path))
    assert bucket.operations() == []


@pytest.mark.parametrize("name", ["../x", ".x", "latest.tar.gz", ""])
async def test_a_filename_that_leads_elsewhere_is_refused(
    storage: BucketStorage, bucket: MemoryBucket, tree: Path, name: str
) -> None:
    with pytest.raises(StalledError):
        await stored(storage, tree, name)

    assert bucket.calls == []


async def test_old_artifacts_go_when_their_time_has_come(
    storage: BucketStorage, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifacts = []
    for number in range(4):
        artifacts.append(await kept(storage, tmp_path, b"%d" % number, f"{number}.tgz"))
        bucket.now += 1
    assert await storage.collect(OWNER, current=artifacts[0]) == ()
    bucket.operations()

    bucket.now += 50
    assert await storage.collect(OWNER, current=artifacts[0]) == ()
    assert bucket.operations() == []
    bucket.now += 20
    assert await storage.collect(OWNER, current=artifacts[0]) == ("1.tgz",)

    names = {key.rpartition("/")[2] for key in bucket.content}
    marks = ("", ".digest-", ".about-")
    assert names == {f"{mark}{n}.tgz" for mark in marks for n in (0, 2, 3)} | {
        ".link-latest.tar.gz"
    }
    assert await storage.intact(artifacts[0])


async def test_a_bucket_tells_what_it_keeps(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    for number in range(3):
        file.write_bytes(b"%d" % number)
        newest = await storage.store_file(
            OWNER,
            revision=f"v{number}",
            filename=f"{number}.tgz",
            file=file,
            metadata={"source.penstock.dev/verified": "by Ada"},
        )
        bucket.now += 1

    told = await (await replica()).kept(OWNER)

    assert [(each.file, each.revision) for each in told] == [
        ("2.tgz", "v2"),
        ("1.tgz", "v1"),
        ("0.tgz", "v0"),
    ]
    assert told[0].digest == newest.digest
    assert told[0].metadata == {"source.penstock.dev/verified": "by Ada"}
    assert [each.expires for each in told] == [None, None, told[2].modified + 60]


async def test_what_is_told_of_other_content_tells_nothing(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    await kept(storage, tmp_path, b"one", "1.tgz")
    forged = b'{"digest":"sha256:0","revision":"forged","metadata":{}}'
    bucket.put(f"fleet/{HERE}/.about-1.tgz", forged)

    (told,) = await (await replica()).kept(OWNER)

    assert (told.file, told.revision) == ("1.tgz", "")


async def test_a_bucket_of_an_older_version_is_enough(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifact = await kept(storage, tmp_path, b"one", "1.tgz")
    del bucket.content[f"fleet/{HERE}/.about-1.tgz"]

    (told,) = await (await replica()).kept(OWNER)

    assert (told.digest, told.size, told.revision) == (artifact.digest, 3, "")


async def test_a_new_pod_cleans_up_what_another_left(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    for number in range(4):
        newest = await kept(storage, tmp_path, b"%d" % number, f"{number}.tgz")
        bucket.now += 1
    bucket.put(f"fleet/{HERE}/.digest-gone.tgz", b"{}")
    bucket.now += 100

    removed = await (await replica()).collect(OWNER, current=newest)

    assert set(removed) == {"0.tgz", "1.tgz"}
    assert f"fleet/{HERE}/.digest-gone.tgz" not in bucket.content


async def test_what_is_removed_is_gone_for_all(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tree: Path
) -> None:
    other = await replica()
    artifact = await stored(storage, tree)
    neighbour = Owner(kind="GitRepository", namespace="apps", name="web-2")
    await storage.store(neighbour, revision="1", filename="x.tar.gz", tree=tree, ignore=IGNORE)
    assert await served(other, artifact.path)

    await storage.remove(OWNER)

    assert await other.open(artifact.path) is None
    assert not await other.intact(artifact)
    assert [key for key in bucket.content if f"{HERE}/" in key] == []
    assert await served(other, f"{neighbour.path}/x.tar.gz")


async def test_the_use_of_space_is_told_by_owner(storage: BucketStorage, tmp_path: Path) -> None:
    other = Owner(kind="GitRepository", namespace="infra", name="dns")
    await kept(storage, tmp_path, b"12345", "1.tgz")
    await kept(storage, tmp_path, b"123", "2.tgz")
    await storage.store_file(other, revision="1", filename="x.tgz", file=tmp_path / "file")

    assert await storage.usage("GitRepository") == {OWNER: 8, other: 3}
    assert await storage.usage("GitRepository", "infra") == {other: 3}
    assert await storage.usage("Git") == {}


async def test_an_object_that_was_overwritten_is_not_intact_and_not_served(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifact = await kept(storage, tmp_path, b"right")
    other = await replica()
    assert await served(other, artifact.path)

    bucket.put(f"fleet/{artifact.path}", b"wrong")

    for each in (storage, other, await replica()):
        assert not await each.intact(artifact)
        assert await each.open(artifact.path) is None
        with pytest.raises(TransientError, match="not what was stored"):
            async with (await replica()).local(artifact):
                pytest.fail("it was given out")
    assert await kept(storage, tmp_path, b"right") == artifact
    assert await served(other, artifact.path) == b"right"


async def test_an_object_that_rotted_is_built_again(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifact = await kept(storage, tmp_path, b"right")
    bucket.rot(f"fleet/{artifact.path}", b"wrong")

    assert await (await replica()).open(artifact.path) is None

    assert not await storage.intact(artifact)
    await kept(storage, tmp_path, b"right")
    assert await served(await replica(), artifact.path) == b"right"


async def test_a_copied_bucket_is_read_once_and_then_believed(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifact = await kept(storage, tmp_path, b"content")
    bucket.put(f"fleet/{artifact.path}", b"content")
    fresh = await replica()

    assert await served(fresh, artifact.path) == b"content"
    assert await (await replica()).intact(artifact)
    bucket.operations()
    assert await (await replica()).intact(artifact)

    assert bucket.operations() == ["head", "read"]


async def test_an_artifact_without_a_record_is_nobodys(
    storage: BucketStorage, bucket: MemoryBucket
) -> None:
    for record in (None, b"", b"{}", b'{"digest":"md5:1","size":1,"etag":"x"}', b"x" * 4096):
        bucket.put(f"fleet/{HERE}/x.tgz", b"content")
        if record is not None:
            bucket.put(f"fleet/{HERE}/.digest-x.tgz", record)
        assert await storage.open(f"{HERE}/x.tgz") is None


def kill_at(bucket: MemoryBucket, operation: str, fragment: str) -> None:
    def before(asked: str, key: str) -> None:
        if asked == operation and fragment in key:
            bucket.before = lambda _operation, _key: None
            raise KilledError

    bucket.before = before


@pytest.mark.parametrize(
    "moment",
    [("head", "/app-1"), ("write", "/app-1"), ("write", "/.digest-"), ("write", "/.link-")],
)
async def test_a_writer_that_is_killed_leaves_nothing_broken(
    storage: BucketStorage,
    replica: Replica,
    bucket: MemoryBucket,
    tmp_path: Path,
    moment: tuple[str, str],
) -> None:
    old = await kept(storage, tmp_path, b"old")
    storage = await replica()
    kill_at(bucket, *moment)
    with pytest.raises(KilledError):
        await kept(storage, tmp_path, b"new")

    leader, follower = await replica(), await replica()
    # served() checks that the digest is that of what is given out
    now = await served(follower, old.path)
    assert now in (b"old", b"new", None)
    assert await leader.intact(old) == (bucket.content[f"fleet/{old.path}"][1] == b"old")
    new = await kept(leader, tmp_path, b"new")
    assert await leader.intact(new)
    assert await served(follower, new.path) == b"new"


async def test_two_writers_of_the_same_converge(
    storage: BucketStorage, replica: Replica, tree: Path
) -> None:
    other = await replica()

    one, two = await asyncio.gather(stored(storage, tree), stored(other, tree))

    assert one == two
    for each in (storage, other, await replica()):
        assert await each.intact(one)
        assert await served(each, one.path)


def overtake(bucket: MemoryBucket, data: bytes) -> None:
    """Have another write the object between our write and our look at it, and be killed."""
    path = f"fleet/{HERE}/app-1.0.0.tgz"

    def before(asked: str, key: str) -> None:
        if asked == "head" and key == path and path in bucket.content:
            bucket.before = lambda _operation, _key: None
            bucket.put(path, data)

    bucket.before = before


async def test_two_writers_of_the_same_at_the_same_moment_are_one(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    overtake(bucket, b"ours")

    artifact = await kept(storage, tmp_path, b"ours")

    assert await (await replica()).intact(artifact)


async def test_a_writer_that_is_overtaken_vouches_for_nothing(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    overtake(bucket, b"other")

    with pytest.raises(TransientError, match="another source controller"):
        await kept(storage, tmp_path, b"ours")

    assert await (await replica()).open(f"{HERE}/app-1.0.0.tgz") is None
    again = await kept(storage, tmp_path, b"ours")
    assert await served(await replica(), again.path) == b"ours"


async def test_a_bucket_that_does_not_answer_is_no_lost_artifact(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tree: Path
) -> None:
    artifact = await stored(storage, tree)
    fresh = await replica()
    bucket.fail()

    async def lend() -> None:
        async with fresh.local(artifact):
            pytest.fail("it was given out")

    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: fresh.intact(artifact),
        lambda: fresh.open(artifact.path),
        lambda: stored(fresh, tree),
        lambda: fresh.collect(OWNER, current=artifact),
        lambda: fresh.remove(OWNER),
        lambda: fresh.usage("GitRepository"),
        lend,
    ]
    for attempt in attempts:
        with pytest.raises(TransientError) as error:
            await attempt()
        assert error.value.reason == "StorageOperationFailed"
        for part in ("bucket 'b'", "gitrepository", "check --storage-backend"):
            assert part in str(error.value)


async def test_what_is_on_the_disk_is_lent_while_the_bucket_is_away(
    storage: BucketStorage, bucket: MemoryBucket, tmp_path: Path
) -> None:
    artifact = await kept(storage, tmp_path, b"content")
    async with storage.local(artifact):
        pass
    bucket.fail()

    async with storage.local(artifact) as path:
        assert path.read_bytes() == b"content"


async def test_a_full_disk_is_named(
    storage: BucketStorage, bucket: MemoryBucket, tmp_path: Path, replica: Replica
) -> None:
    artifact = await kept(storage, tmp_path, b"content")
    fresh = await replica()

    def refuse(operation: str, _key: str) -> None:
        if operation == "read":
            raise OSError(28, "No space left on device")

    bucket.before = refuse

    with pytest.raises(TransientError, match=r"\(--storage-path\) is full"):
        await fresh.open(artifact.path)


def held(disks: Path) -> int:
    return sum(path.stat().st_size for path in disks.glob("disk-*/cache/*/*/content"))


async def test_the_cache_stays_within_its_bounds(
    replica: Replica, bucket: MemoryBucket, tmp_path: Path
) -> None:
    small = await replica(cached=25)
    artifacts = [
        await kept(small, tmp_path, b"%d" % number * 10, f"{number}.tgz") for number in range(5)
    ]
    opened = await small.open(artifacts[0].path)
    assert opened is not None

    for artifact in artifacts[1:]:
        assert await served(small, artifact.path)

    with opened.file:
        assert opened.file.read() == b"0" * 10
    assert 0 < held(tmp_path) <= 25
    bucket.operations()
    assert await served(small, artifacts[4].path)
    assert await served(small, artifacts[0].path)
    assert bucket.operations() == ["head", "head", "read"]


async def test_what_is_lent_does_not_go_from_the_cache(replica: Replica, tmp_path: Path) -> None:
    small = await replica(cached=0)
    artifact = await kept(small, tmp_path, b"content", "1.tgz")
    other = await kept(small, tmp_path, b"other", "2.tgz")

    async with small.local(artifact) as path:
        assert await served(small, other.path)
        assert path.read_bytes() == b"content"


async def test_many_readers_are_one_download(
    storage: BucketStorage, replica: Replica, bucket: MemoryBucket, tree: Path
) -> None:
    artifact = await stored(storage, tree)
    fresh = await replica()
    bucket.operations()

    await asyncio.gather(*(served(fresh, artifact.path) for _ in range(10)))

    assert [key for what, key in bucket.calls if what == "read" and ".digest" not in key] == [
        f"fleet/{artifact.path}"
    ]


async def test_nothing_is_left_on_the_disk_of_a_failed_store(
    storage: BucketStorage, bucket: MemoryBucket, tree: Path, tmp_path: Path
) -> None:
    bucket.fail()

    with contextlib.suppress(TransientError):
        await stored(storage, tree)

    left = os.listdir(tmp_path / "disk-1" / "scratch")  # noqa: PTH208
    assert left == []
