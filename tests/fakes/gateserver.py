"""The endpoint of the gate without a cluster, on loopback: its plugins do what a test says."""

import asyncio
import contextlib
import datetime as dt
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec

from certs import authority
from certs.serving import Serving
from tests.fakes.admission import REVIEW
from tests.fakes.serving import free_port
from tests.fakes.strangers import Stranger
from toolkit.net.connections import Limits
from toolkit.turns import Turns
from webhooks.listener import Listener
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.server import Convert, Endpoint, Entry, Reviews
from webhooks.services import Services

Review = Callable[[Request], Awaitable[Answer]]
BODY = msgspec.json.encode(REVIEW)
PATIENT = Limits(connections=4, handshakes=4, handshake_seconds=60, request_seconds=60)
PODS = Rule(groups=("",), versions=("v1",), resources=("pods",))
HEADERS = {"Content-Type": "application/json"}


class Scripted:
    """A plugin that does what the test says."""

    def __init__(self, behave: Callable[[Request], Awaitable[Answer]]) -> None:
        self._behave = behave

    async def review(self, request: Request) -> Answer:
        return await self._behave(request)


class Late:
    """A cache that is complete when the test says so."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    @property
    def synced(self) -> bool:
        return self.event.is_set()

    async def wait_synced(self) -> None:
        await self.event.wait()


async def yes(_: Request) -> Answer:
    return Answer()


def entry(
    behave: Callable[[Request], Awaitable[Answer]] = yes,
    *,
    turns: Turns | None = None,
    caches: tuple[Late, ...] = (),
    **row: Any,
) -> Entry:
    plugin = Scripted(behave)

    def make(_: Services) -> Scripted:
        return plugin

    usual = {"name": "test", "mutating": True, "rules": (PODS,), "make": make}
    return Entry(row=Row(**{**usual, **row}), plugin=plugin, turns=turns or Turns(), caches=caches)


class Port:
    """A listener on loopback, and its clients."""

    def __init__(self, port: int, endpoint: Endpoint, trust: ssl.SSLContext) -> None:
        self.port = port
        self.endpoint = endpoint
        self.trust = trust
        self._open = contextlib.AsyncExitStack()

    async def client(self) -> aiohttp.ClientSession:
        """Return a client with connections of its own, as an API server is one."""
        connector = aiohttp.TCPConnector(ssl=self.trust)
        session = aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", connector=connector)
        return await self._open.enter_async_context(session)

    async def ask(self, client: aiohttp.ClientSession, body: bytes = BODY) -> bool:
        """Tell whether a review is answered."""
        async with client.post("/admit/test", data=io.BytesIO(body), headers=HEADERS) as response:
            return bool((await response.json())["response"]["allowed"])

    async def stranger(self, *, tls: bool) -> Stranger:
        """Open a connection, and say nothing on it."""
        found = await Stranger.open(self.port, tls=self.trust if tls else None)
        self._open.callback(found.writer.close)
        return found

    async def close(self) -> None:
        await self._open.aclose()


@contextlib.asynccontextmanager
async def listening(
    limits: Limits | None, behave: Review = yes, convert: Convert | None = None
) -> AsyncIterator[Port]:
    now = dt.datetime.now(dt.UTC)
    root = authority.new_authority("test", now=now, lifetime=dt.timedelta(days=1))
    leaf = authority.new_leaf(root, ["127.0.0.1"], now=now, lifetime=dt.timedelta(days=1))
    serving = Serving()
    serving.load(leaf)
    trust = ssl.create_default_context(cadata=root.certificate.decode())

    async def certificate() -> None:
        """Return at once."""

    endpoint = Endpoint(Reviews({"test": entry(behave)}), convert=convert, limits=limits)
    port = free_port()
    listener = Listener(
        endpoint, serving, address=f"127.0.0.1:{port}", certificate=certificate, grace=5
    )
    task = asyncio.create_task(listener.run())
    await listener.wait_synced()
    opened = Port(port, endpoint, trust)
    try:
        yield opened
    finally:
        await opened.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
