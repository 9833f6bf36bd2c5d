"""Artifacts in buckets of real S3, Google and Azure servers, served by several replicas."""

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from crds.meta import Artifact
from tests.fakes.bucketreplicas import IGNORE, OWNER, replicas, served, stored
from tests.fakes.objectservers import ACCESS_KEY, SECRET_KEY, S3Server
from tests.fakes.serving import Serve, closed_port
from tests.loopback.artifact import writer
from toolkit.artifact import access, archive, backend
from toolkit.artifact import server as artifact_server
from toolkit.artifact.access import Access
from toolkit.artifact.backend import Settings
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.fetch import Fetcher
from toolkit.artifact.uploads import Uploads
from toolkit.errors import TransientError
from toolkit.objects import GroupVersionKind
from toolkit.remote.objectstore.objectstore import ObjectStore, Place, S3Keys

T = TypeVar("T")
Replica = Callable[[Place], Awaitable[BucketStorage]]


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    """Return a function that starts a replica of a bucket."""
    async with AsyncExitStack() as stack, replicas(tmp_path) as start:

        async def started(place: Place) -> BucketStorage:
            quick = await stack.enter_async_context(ObjectStore(place, timeout=5))
            bulk = await stack.enter_async_context(ObjectStore(place, timeout=30))
            return await start(quick=quick, bulk=bulk)

        yield started


async def test_every_replica_serves_what_one_stored(
    place: Place, replica: Replica, tree: Path, serve: Serve
) -> None:
    leader, follower = await replica(place), await replica(place)
    artifact = await stored(leader, tree)
    addresses = [await serve(artifact_server.application(each)) for each in (leader, follower)]

    for address in addresses:
        async with aiohttp.ClientSession(f"http://{address}", auto_decompress=False) as session:
            for path in (artifact.path, artifact.path.replace("abc", "latest")):
                async with session.get(f"/{path}") as response:
                    body = await response.read()
                    assert response.headers["X-Artifact-Digest"] == artifact.digest
                assert f"sha256:{hashlib.sha256(body).hexdigest()}" == artifact.digest
            async with session.get(f"/{artifact.path}", headers={"Range": "bytes=3-"}) as part:
                assert (part.status, await part.read()) == (206, body[3:])


async def test_a_consumer_unpacks_from_any_replica(
    place: Place, replica: Replica, tree: Path, serve: Serve, tmp_path: Path
) -> None:
    artifact = await stored(await replica(place), tree)
    address = await serve(artifact_server.application(await replica(place)))

    async with (
        Fetcher(tmp_path / "consumer", host_override=address) as fetcher,
        fetcher.extracted(artifact) as extracted,
    ):
        assert (extracted.path / "app" / "a.yaml").read_text() == "a: 1\n"


async def test_a_new_pod_finds_everything(place: Place, replica: Replica, tree: Path) -> None:
    artifact = await stored(await replica(place), tree)

    fresh = await replica(place)

    assert await fresh.intact(artifact)
    assert await fresh.collect(OWNER, current=artifact) == ()
    assert await stored(fresh, tree) == artifact
    assert sum((await fresh.usage("GitRepository")).values()) == artifact.size


async def test_every_replica_tells_what_is_kept(place: Place, replica: Replica, tree: Path) -> None:
    leader = await replica(place)
    old = await stored(leader, tree, "old.tar.gz")
    (tree / "more").write_text("x")
    new = await stored(leader, tree, "new.tar.gz")

    kept = await (await replica(place)).kept(OWNER)

    assert {each.file: each.digest for each in kept} == {
        "old.tar.gz": old.digest,
        "new.tar.gz": new.digest,
    }
    assert {each.revision for each in kept} == {"main@sha1:abc"}
    assert {each.size for each in kept} == {old.size, new.size}


async def test_what_is_removed_is_gone(place: Place, replica: Replica, tree: Path) -> None:
    leader, follower = await replica(place), await replica(place)
    artifact = await stored(leader, tree)
    assert await served(follower, artifact.path)

    await leader.remove(OWNER)

    assert await follower.open(artifact.path) is None
    assert not await follower.intact(artifact)
    async with ObjectStore(place) as objects:
        assert [found.key async for found in objects.list("")] == []


async def test_damage_is_noticed_and_healed(place: Place, replica: Replica, tree: Path) -> None:
    leader, follower = await replica(place), await replica(place)
    artifact = await stored(leader, tree)
    async with ObjectStore(place) as objects:
        await objects.write_bytes(f"fleet/{artifact.path}", bytes(artifact.size or 0))

    for each in (leader, follower):
        assert not await each.intact(artifact)
        assert await each.open(artifact.path) is None

    assert (await stored(leader, tree)).digest == artifact.digest
    assert await served(follower, artifact.path)


async def test_two_writers_converge(
    place: Place, replica: Replica, tree: Path, tmp_path: Path
) -> None:
    one, two = await replica(place), await replica(place)
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.yaml").write_bytes(secrets.token_bytes(100_000))

    same = await asyncio.gather(stored(one, tree), stored(two, tree))
    differing = await asyncio.gather(
        stored(one, tree, "x.tar.gz"), stored(two, other, "x.tar.gz"), return_exceptions=True
    )

    assert same[0].digest == same[1].digest
    assert await one.intact(same[0])
    assert all(isinstance(each, Artifact | TransientError) for each in differing)
    final = await stored(one, tree, "x.tar.gz")
    assert await two.intact(final)
    assert await served(two, final.path)


async def at_last(work: Callable[[], Awaitable[T]]) -> T:
    """Do what may have to be done again: the server may still be at what the dead one sent."""
    for _ in range(5):
        with contextlib.suppress(TransientError):
            return await work()
    return await work()


async def test_a_writer_killed_at_any_moment_leaves_nothing_broken(
    s3: S3Server, replica: Replica, tmp_path: Path
) -> None:
    place = await s3.place()
    path = f"{OWNER.path}/x.tgz"
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    for attempt in range(4):
        base = tmp_path / f"writer-{attempt}"
        base.mkdir()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            writer.__name__,
            f"{place.endpoint}/{place.bucket}",
            str(base),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"stored\n"
        await asyncio.sleep(secrets.randbelow(100) / 1000)
        process.send_signal(signal.SIGKILL)
        await process.communicate()

        # served() checks that what comes has the digest under which it comes.
        await at_last(partial(served, await replica(place), path))
        await at_last(partial(replaced, await replica(place), await replica(place), mine))


async def replaced(leader: BucketStorage, follower: BucketStorage, file: Path) -> None:
    """Store what a new leader would, and see it served by another replica."""
    artifact = await leader.store_file(OWNER, revision="2", filename="x.tgz", file=file)
    content = await served(follower, artifact.path)
    if content != b"mine" or not await leader.intact(artifact):
        raise TransientError("what the dead one sent arrived after all")


async def test_a_bucket_that_cannot_be_reached_is_told_to_all(
    s3: S3Server, replica: Replica, tree: Path, serve: Serve
) -> None:
    place = await s3.place()
    artifact = await stored(await replica(place), tree)
    with closed_port() as nowhere:
        lost = await replica(replace(place, endpoint=nowhere))
        address = await serve(artifact_server.application(lost))

        with pytest.raises(TransientError) as error:
            await lost.intact(artifact)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{address}/{artifact.path}") as response,
        ):
            status, headers = response.status, response.headers

    assert (status, headers["Retry-After"]) == (503, "5")
    assert error.value.reason == "StorageOperationFailed"
    for part in (place.bucket, artifact.path, nowhere, "check --storage-backend"):
        assert part in str(error.value)


@pytest.mark.parametrize("change", ["keys", "bucket"])
async def test_what_the_bucket_refuses_names_no_secret(
    s3: S3Server, replica: Replica, tree: Path, change: str
) -> None:
    place = await s3.place()
    wrong = {
        "keys": replace(place, credentials=S3Keys(access_key="AKIA", secret_key="very-secret")),
        "bucket": replace(place, bucket="never-made"),
    }[change]
    storage = await replica(wrong)

    with pytest.raises(TransientError) as error:
        await stored(storage, tree)

    assert wrong.bucket in str(error.value)
    assert "very-secret" not in str(error.value)


async def test_an_operators_url_opens_a_bucket(s3: S3Server, tree: Path, tmp_path: Path) -> None:
    place = await s3.place()
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "accesskey").write_text(ACCESS_KEY)
    (keys / "secretkey").write_text(SECRET_KEY)
    url = f"s3://{place.bucket}/a/b?endpoint=http://{place.endpoint}"
    environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    first = await backend.open_store(
        f"{url}&credentials={keys}", Settings(root=tmp_path / "1", advertised="x"), environment={}
    )
    second = await backend.open_store(
        url, Settings(root=tmp_path / "2", advertised="x"), environment=environment
    )
    try:
        artifact = await first.store.store(
            OWNER, revision="1", filename="x.tar.gz", tree=tree, ignore=IGNORE
        )
        assert await second.store.intact(artifact)
        assert first.shared
        assert second.shared
    finally:
        await first.close()
        await second.close()

    async with ObjectStore(place) as objects:
        keys_there = [found.key async for found in objects.list("")]
    assert f"a/b/{artifact.path}" in keys_there
    assert not list((tmp_path / "1" / "cache").glob("*"))


async def test_an_operators_wrong_bucket_shows_at_the_start(
    s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"s3://never-made?endpoint=http://{s3.endpoint}"
    environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    opened = await backend.open_store(
        url, Settings(root=tmp_path / "1", advertised="x"), environment=environment
    )
    await opened.close()

    record = next(each for each in caplog.records if each.levelname == "ERROR")
    assert "never-made" in str(vars(record)["error"])
    assert SECRET_KEY not in caplog.text


class Cluster:
    """An API server on which everybody may upload for everything."""

    async def request(self, method: str, path: str, *, body: dict[str, Any]) -> dict[str, Any]:
        del method, body
        if path.endswith("tokenreviews"):
            user = {"username": "system:serviceaccount:apps:rows"}
            return {
                "status": {
                    "authenticated": True,
                    "audiences": [access.AUDIENCE],
                    "user": user,
                }
            }
        return {"status": {"allowed": True}}

    async def get(self, gvk: GroupVersionKind, name: str, namespace: str = "") -> dict[str, Any]:
        return {"kind": gvk.kind, "metadata": {"name": name, "namespace": namespace}}


async def test_what_one_replica_takes_the_other_serves(
    s3: S3Server, replica: Replica, serve: Serve, tree: Path, tmp_path: Path
) -> None:
    place, cluster = await s3.place(), Cluster()
    addresses = []
    for _ in range(2):
        store = await replica(place)
        uploads = Uploads(
            store, access=Access(cluster), objects=cluster, scratch=tmp_path / "uploads"
        )
        addresses.append(await serve(artifact_server.application(store, uploads=uploads)))
    with (tmp_path / "packed").open("wb") as out:
        packed = archive.pack(tree, out, IGNORE)
    body = (tmp_path / "packed").read_bytes()

    async with aiohttp.ClientSession(headers={"Authorization": "Bearer abc"}) as session:
        target = "externalartifact/apps/rows/1.tar.gz"
        async with session.put(f"http://{addresses[0]}/{target}", data=body) as taken:
            artifact = await taken.json()
        async with session.get(f"http://{addresses[1]}/{artifact['path']}") as response:
            served_body = await response.read()

    assert (taken.status, artifact["digest"]) == (201, packed.digest)
    assert served_body == body


async def test_an_upload_while_the_bucket_is_away_is_to_be_repeated(
    s3: S3Server, replica: Replica, serve: Serve, tmp_path: Path
) -> None:
    cluster = Cluster()
    with closed_port() as nowhere:
        store = await replica(replace(await s3.place(), endpoint=nowhere))
        uploads = Uploads(
            store, access=Access(cluster), objects=cluster, scratch=tmp_path / "uploads"
        )
        address = await serve(artifact_server.application(store, uploads=uploads))
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer abc"}) as session,
            session.put(
                f"http://{address}/externalartifact/apps/rows/1.tar.gz", data=b"x"
            ) as response,
        ):
            answer = await response.json()

    assert response.status == 503
    assert response.headers["Retry-After"] == "5"
    assert "check --storage-backend" in answer["error"]
