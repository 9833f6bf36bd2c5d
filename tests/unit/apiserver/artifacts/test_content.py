"""Bytes for clients that do not read: they keep each other waiting, and nobody else."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver.artifacts import blobs
from apiserver.artifacts.blobs import Blobs
from apiserver.artifacts.content import Content
from apiserver.artifacts.held import Held
from apiserver.artifacts.hosts import Hosts
from apiserver.call import Call, User
from toolkit.artifact.store import Owner

LARGE, SMALL = bytes(16 << 20), b"small"
"""More than the buffers between two sockets take, and less."""
VICTIM = User(name="victim")


class Store:
    """An artifact server; what is named ``stuck`` comes to its middle."""

    def __init__(self) -> None:
        self.port = 0
        self.over = asyncio.Event()
        self.begun = 0

    def artifact(self, name: str, *, size: int | None = None) -> Held:
        data = LARGE if name == "large" else SMALL
        path = f"gitrepository/apps/{name}/a.tar.gz"
        return Held(
            owner=Owner(kind="GitRepository", namespace="apps", name=name),
            api_version="v1",
            source_uid="u",
            digest=f"sha256:{hashlib.sha256(data).hexdigest()}",
            revision="r",
            size=len(data) if size is None else size,
            file="a.tar.gz",
            path=path,
            url=f"http://127.0.0.1:{self.port}/{path}",
            stored="",
            current=True,
        )

    def require(self, call: Call) -> Held:
        """As the catalog does: what is asked for by name."""
        return self.artifact(call.name, size=0 if "unsized" in call.name else None)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if "stuck" not in request.path:
            return web.Response(body=LARGE if "large" in request.path else SMALL)
        response = web.StreamResponse()
        response.content_length = len(SMALL)
        await response.prepare(request)
        self.begun += 1
        await self.over.wait()
        return response


class Scene:
    """The store, what fetches from it, and the subresource over HTTP."""

    def __init__(self, store: Store, found: Blobs, port: int) -> None:
        self.store = store
        self.blobs = found
        self.port = port

    @asynccontextmanager
    async def asking(self, name: str, user: str, *headers: str) -> AsyncIterator[socket.socket]:
        """Ask, and read nothing."""
        asker = socket.socket()
        asker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asker.settimeout(0)
        with asker:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(asker, ("127.0.0.1", self.port))
            lines = (f"GET /{name} HTTP/1.1", "Host: x", f"X-User: {user}", *headers, "", "")
            await loop.sock_sendall(asker, "\r\n".join(lines).encode())
            yield asker


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    store = Store()
    fetch: asyncio.Future[Blobs] = asyncio.get_running_loop().create_future()
    catalog: Any = store
    content = Content(catalog, fetch)

    async def answer(request: web.Request) -> web.StreamResponse:
        user = User(name=request.headers["X-User"])
        name = request.path.strip("/")
        call = Call(web=request, user=user, verb="get", path="/", query=request.query, name=name)
        return await content.handle(call)

    behind, before = web.Application(), web.Application()
    behind.router.add_get("/{path:.*}", store.serve)
    before.router.add_get("/{path:.*}", answer)
    async with TestServer(behind) as server, TestServer(before) as front:
        store.port = server.port or 0
        hosts = Hosts.of((f"127.0.0.1:{store.port}",))
        async with blobs.opened(hosts, tmp_path / "copies") as found:
            fetch.set_result(found)
            yield Scene(store, found, front.port or 0)
            store.over.set()


async def _look(scene: Scene) -> bytes:
    async with (
        asyncio.timeout(60),
        scene.blobs.file(scene.store.artifact("app"), VICTIM) as path,
    ):
        return await asyncio.to_thread(path.read_bytes)


async def test_slow_downloads_do_not_keep_others_from_looking_into_files(scene: Scene) -> None:
    url = scene.store.artifact("app").url

    async def download(user: str) -> None:
        async with scene.asking("stuck", user):
            await scene.store.over.wait()

    tasks = [asyncio.create_task(download(f"user-{number}")) for number in range(120)]
    try:
        async with asyncio.timeout(60):
            while scene.store.begun < 60:  # noqa: ASYNC110 - the store is in this process
                await asyncio.sleep(0.01)

        looked = await _look(scene)
        # As the survey asks what the store has.
        async with asyncio.timeout(60), scene.blobs.session.get(url) as response:
            listed = response.status

        assert (looked, listed) == (SMALL, 200)
        # The artifact server has other clients too.
        assert scene.store.begun <= 64
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_slow_readers_of_ranges_do_not_keep_others_from_looking_into_files(
    scene: Scene,
) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60):
        readers = [
            scene.asking("large", user, "Range: bytes=1-") for user in (*["jane"] * 6, *["joe"] * 2)
        ]
        async with asyncio.TaskGroup() as group:
            looked = asyncio.Event()

            async def read(reader: Any, began: asyncio.Event) -> None:
                async with reader as asker:
                    assert await loop.sock_recv(asker, 12) == b"HTTP/1.1 206"
                    began.set()
                    await looked.wait()

            begun = [asyncio.Event() for _ in readers]
            for reader, began in zip(readers, begun, strict=True):
                group.create_task(read(reader, began))
            for began in begun:
                await began.wait()

            assert await _look(scene) == SMALL
            looked.set()


async def test_parts_of_what_nobody_knows_the_size_of_are_sent(scene: Scene) -> None:
    """Each needs a copy twice; nobody waits for a second one while holding the first."""

    async def part() -> bytes:
        async with scene.asking("unsized", "jane", "Range: bytes=1-2") as asker:
            received = b""
            while not received.endswith(SMALL[1:3]):
                received += await asyncio.get_running_loop().sock_recv(asker, 4096)
            return received

    async with asyncio.timeout(60):
        parts = await asyncio.gather(*(part() for _ in range(12)))

    assert all(each.startswith(b"HTTP/1.1 206") for each in parts)
