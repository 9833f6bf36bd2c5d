"""A client that is closed leaves no connection, whatever its server does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import trustme

from tests.fakes.serving import certified
from tests.tools import sockets
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig

WATCH = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
PATH = "/api/v1/namespaces/a/configmaps"


class Deaf(asyncio.Protocol):
    """Begins an answer to a request, and never reads again: not even the end of TLS."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connected.append(transport)

    def data_received(self, _data: bytes) -> None:
        self._transport.pause_reading()
        self._transport.write(self._server.answer)
        self._server.asked.set()


class Server:
    """A TLS server of deaf connections."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.answer = b""
        self.asked = asyncio.Event()
        self.connected: list[asyncio.Transport] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: Deaf(self), "127.0.0.1", 0, ssl=certified(self.authority, "127.0.0.1")
        )
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            for transport in self.connected:
                transport.abort()
            await sockets.closed(self.port)

    def client(self) -> contextlib.AbstractAsyncContextManager[Client]:
        ca = self.authority.cert_pem.bytes()
        return Client.open(ClusterConfig(server=f"https://127.0.0.1:{self.port}", ca=ca))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().running() as running:
        yield running


async def test_request_that_was_cancelled_leaves_no_connection(server: Server) -> None:
    async with server.client() as client:
        waiting = asyncio.create_task(client.request("GET", PATH))
        await server.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert sockets.made_to(server.port) == 1

    assert sockets.made_to(server.port) == 0


async def test_watch_that_was_broken_off_leaves_no_connection(server: Server) -> None:
    server.answer = WATCH
    async with server.client() as client:
        async with client.watch(PATH, query={}, accept="application/json") as chunks:
            assert await anext(chunks) == b"{}"
        assert sockets.made_to(server.port) == 1

    assert sockets.made_to(server.port) == 0
