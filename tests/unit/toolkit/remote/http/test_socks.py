"""Connections through a SOCKS proxy that end before there is an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from toolkit.remote.errors import HttpError
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.proxy import Proxy


@dataclass
class Stuck:
    """A proxy that goes ``steps`` of its way, and there closes the connection or waits."""

    steps: int
    waits: bool
    there: asyncio.Event = field(default_factory=asyncio.Event)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    endpoint: Endpoint = field(default_factory=Endpoint)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Stuck"]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            self.endpoint = Endpoint(proxy=Proxy(address=f"socks5://127.0.0.1:{port}"))
            yield self
            self.enough.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        if self.steps:
            writer.write(b"\x05\x00")
            head = await reader.readexactly(5)
            await reader.readexactly(head[4] + 2)
            writer.write(b"\x05\x00\x00\x01" + bytes(6))
            await reader.readexactly(1)  # TLS begins
        self.there.set()
        if self.waits:
            await self.enough.wait()
        writer.transport.abort()


async def ask(http: Http, endpoint: Endpoint) -> None:
    url = "https://registry.example.com/"
    async with http.request("GET", url, endpoint=endpoint, timeout=60):
        pytest.fail("there is nobody to answer")


@pytest.mark.parametrize("steps", [0, 1], ids=["handshake", "tls"])
async def test_request_that_is_cancelled_ends_as_cancelled(steps: int) -> None:
    async with Stuck(steps, waits=True).running() as proxy, Http() as http:
        held = asyncio.create_task(ask(http, proxy.endpoint))
        await proxy.there.wait()

        held.cancel()
        await asyncio.wait([held])

        assert held.cancelled()


async def test_connection_that_breaks_behind_the_proxy_is_told() -> None:
    async with Stuck(1, waits=False).running() as proxy, Http() as http:
        with pytest.raises(HttpError, match=r"^cannot ask 'https://registry\.example\.com/'"):
            await ask(http, proxy.endpoint)
