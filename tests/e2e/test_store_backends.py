"""Artifacts in a bucket: any replica serves them, and no death of one costs a fetch."""

import asyncio
import contextlib
import hashlib
import secrets
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from cli.stack import stack as stacks
from controlplane.plane import ControlPlane
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    LEASE,
    NAMESPACE,
    QUICK_LEASE,
    Space,
    World,
    build_world,
    condition,
    config_map,
    is_ready,
)
from tests.e2e.sources import artifact_of, digest_of, fetches
from tests.fakes import objectservers
from tests.fakes.objectservers import ACCESS_KEY, SECRET_KEY
from tests.tools import leaders
from tests.tools.waiting import until
from toolkit.objects import Json, dig
from toolkit.remote.objectstore.objectstore import ObjectStore, Place

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Gate:
    """The way to the S3 server, which can be shut."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.partition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            with contextlib.closing(far_writer):
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._busy.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest_asyncio.fixture(loop_scope="session")
async def space(world: World) -> AsyncIterator[Space]:
    """Give the test a namespace of its own beside the bucket."""
    made = Space(world=world, namespace=f"test-{secrets.token_hex(4)}")
    await world.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}}
    )
    yield made
    await world.api.delete(NAMESPACE, made.namespace)


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The bucket that the world keeps its artifacts in, and the way there."""

    place: Place
    gate: Gate


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bucket(
    versitygw_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bucket]:
    root = tmp_path_factory.mktemp("s3") / "root"
    root.mkdir()
    async with objectservers.s3(versitygw_program, root) as server:
        gate = Gate(server.endpoint)
        await gate.open()
        yield Bucket(place=await server.place(), gate=gate)
        await gate.shut()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(
    second_control_plane: ControlPlane, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run two replicas of each controller over one bucket, away from the shared world."""
    directory = tmp_path_factory.mktemp("backends")
    keys = directory / "keys"
    keys.mkdir()
    (keys / "accesskey").write_text(ACCESS_KEY)
    (keys / "secretkey").write_text(SECRET_KEY)
    url = (
        f"s3://{bucket.place.bucket}/fleet?endpoint=http://127.0.0.1:{bucket.gate.port}"
        f"&credentials={keys}"
    )
    flags = {"source": (*QUICK_LEASE, f"--storage-backend={url}"), "kustomize": QUICK_LEASE}
    async with build_world(
        second_control_plane, directory, flags=flags, replicas=2, components=stacks.CONTROLLERS
    ) as built:
        for replica in (0, 1):
            await built.stack.wait_ready("source", replica=replica)
        yield built


async def get(world: World, replica: int, source: Json) -> tuple[int, str, bytes]:
    """Ask one replica for an artifact: status, digest header, body."""
    port = world.stack._running["source", replica].ports.storage
    url = f"http://127.0.0.1:{port}/{artifact_of(source)['path']}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        digest = response.headers.get("X-Artifact-Digest", "")
        return response.status, digest, await response.read()


async def holder(world: World) -> str:
    obj = await world.api.get(LEASE, "source-controller", world.stack.options.namespace)
    return str(dig(obj, "spec", "holderIdentity", default=""))


async def deployed(space: Space) -> tuple[Json, int]:
    """Apply one commit; return the source and how often its repository was fetched."""
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("settings", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)
    source = await space.get(GIT_REPOSITORY, "app")
    return source, fetches(space.world.git, repository)


async def test_both_replicas_serve_what_one_stored(space: Space) -> None:
    source, fetched = await deployed(space)

    answers = [await get(space.world, replica, source) for replica in (0, 1)]

    for status, digest, body in answers:
        assert (status, digest) == (200, digest_of(source))
        assert f"sha256:{hashlib.sha256(body).hexdigest()}" == digest
    await space.acting("source")
    worked = [space.noted("source", replica) > 0 for replica in (0, 1)]
    assert sorted(worked) == [False, True]
    assert fetched == 1


async def test_killed_leader_costs_no_fetch(space: Space) -> None:
    source, fetched = await deployed(space)
    world, before = space.world, await holder(space.world)
    leader = await space.acting("source")
    pid = world.stack.pids()[f"source-{leader}"]

    # frozen, so that the supervisor does not bring it back before the other one leads
    found = await world.leader("source")
    await world.stack.kill("source", signal.SIGSTOP, replica=leader)
    await leaders.depose(world.stack, world.api, found)
    await space.request(GIT_REPOSITORY)
    after = await space.ready(GIT_REPOSITORY)

    assert await holder(world) != before
    assert digest_of(after) == digest_of(source)
    assert fetches(world.git, space.repositories[0]) == fetched
    assert (await get(world, 1 - leader, after))[1] == digest_of(source)
    await world.stack.kill("source", signal.SIGKILL, replica=leader)
    await world.stack.kill("source", signal.SIGCONT, replica=leader)
    await until(lambda: world.stack.pids().get(f"source-{leader}", pid) != pid)
    await world.stack.wait_ready("source", replica=leader)


async def test_new_pods_with_empty_disks_serve_without_fetching(space: Space) -> None:
    source, fetched = await deployed(space)
    stack = space.world.stack
    await asyncio.gather(*(stack.stop("source", replica=replica) for replica in (0, 1)))
    await asyncio.to_thread(shutil.rmtree, stack.layout.storage)

    # A consumer that has nothing left has to download.
    components = ("source", "kustomize")
    await asyncio.gather(*(stack.restart(c, replica=n) for c in components for n in (0, 1)))
    await space.request(GIT_REPOSITORY)
    again = space.kustomization("again", targetNamespace=space.namespace)
    await space.world.apply(again)
    await space.ready(KUSTOMIZATION, "again")

    after = await space.get(GIT_REPOSITORY, "app")
    assert is_ready(after)
    assert digest_of(after) == digest_of(source)
    assert fetches(space.world.git, space.repositories[0]) == fetched
    for replica in (0, 1):
        assert (await get(space.world, replica, after))[:2] == (200, digest_of(source))


async def test_what_is_deleted_leaves_nothing_in_the_bucket(space: Space, bucket: Bucket) -> None:
    source, _ = await deployed(space)
    prefix = f"fleet/gitrepository/{space.namespace}/"
    async with ObjectStore(bucket.place) as objects:
        assert [each.key async for each in objects.list(prefix)]

        await space.world.api.delete(GIT_REPOSITORY, "app", space.namespace)
        await space.world.gone(GIT_REPOSITORY, space.namespace, "app")

        assert [each.key async for each in objects.list(prefix)] == []
    for replica in (0, 1):
        assert (await get(space.world, replica, source))[0] == 404


async def test_bucket_that_is_away_is_told_and_loses_nothing(space: Space, bucket: Bucket) -> None:
    source, fetched = await deployed(space)
    world = space.world

    await bucket.gate.shut()
    try:
        await request(space)
        failed = await space.refused(GIT_REPOSITORY, saying=bucket.place.bucket)
        statuses = [(await get(world, replica, source))[0] for replica in (0, 1)]
    finally:
        await bucket.gate.open()
    healed = await world.until(GIT_REPOSITORY, space.namespace, "app", is_ready)

    ready = condition(failed, "Ready")
    assert ready["reason"] == "StorageOperationFailed"
    assert "--storage-backend" in ready["message"]
    assert SECRET_KEY not in ready["message"]
    assert artifact_of(failed) == artifact_of(source)
    assert statuses == [503, 503]
    assert digest_of(healed) == digest_of(source)
    assert fetches(world.git, space.repositories[0]) == fetched
    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"v": "1"}


async def request(space: Space) -> None:
    """Ask for a reconcile, which may fail."""
    await space.world.api.patch(
        GIT_REPOSITORY,
        "app",
        space.namespace,
        {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "while it is away"}}},
        strategy="merge",
    )


async def test_secrets_of_the_bucket_are_in_no_log(space: Space) -> None:
    await deployed(space)

    for replica in (0, 1):
        assert SECRET_KEY not in space.world.stack.log("source", replica=replica).read_text()
