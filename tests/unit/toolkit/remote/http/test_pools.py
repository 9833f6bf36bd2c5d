"""The connections of each trust: kept for a few, closed for others, and never under a request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.tools import sessions
from toolkit.remote.http.http import Endpoint, Http, read

TRUSTS = tuple(Endpoint(plain_http=True, ca=trustme.CA().cert_pem.bytes()) for _ in range(4))


@dataclass(frozen=True)
class Site:
    """A server, and one client that keeps the connections of one trust."""

    url: str
    http: Http

    async def get(self, trust: Endpoint) -> bytes:
        request = self.http.request("GET", self.url, endpoint=trust, timeout=10)
        async with request as response:
            return await read(response, limit=1024)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    async with TestServer(app) as server, Http(pools=1) as http:
        yield Site(str(server.make_url("/")), http)


@pytest.mark.parametrize("steps", range(12))
async def test_request_that_is_cancelled_keeps_no_connections(steps: int) -> None:
    before = sessions.opened()

    async with site() as world:
        await world.get(TRUSTS[0])
        asking = asyncio.create_task(world.get(TRUSTS[1]))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await world.get(TRUSTS[2])
        kept = sessions.opened() - before

    assert len(kept) == 1
    assert sessions.opened() <= before


async def test_requests_that_make_room_at_once_disturb_each_other_in_nothing() -> None:
    async with site() as world:
        for _ in range(10):
            answers = await asyncio.gather(*(world.get(trust) for trust in TRUSTS))
            assert answers == [b"hello"] * len(TRUSTS)
