"""A subresource's handler over HTTP, without the chain of filters before it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver.call import Call, User
from apiserver.inventories.appliers import Applied
from apiserver.inventories.inventory import Inventory
from apiserver.status import StatusError
from tests.unit.apiserver.inventories.scene import APPLIER
from toolkit.objects import Json, ObjectKey

Handler = Callable[[Call], Awaitable[web.StreamResponse]]


class Known:
    """Inventories by key, without what makes them; also the view that knows them."""

    ready = True
    missing: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    def __init__(self, *every: Applied) -> None:
        self._every = {one.key: Inventory(applier=APPLIER, applied=one) for one in every}

    def get(self, key: ObjectKey) -> Inventory | None:
        return self._every.get(key)


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    status: int
    body: Json


Ask = Callable[..., Awaitable[Answer]]


@asynccontextmanager
async def asked(handler: Handler, *, name: str = "app", seconds: float = 30) -> AsyncIterator[Ask]:
    """Give a function that asks the handler about an inventory, as the user of a header."""

    async def answer(request: web.Request) -> web.StreamResponse:
        call = Call(
            web=request,
            user=User(name=request.headers.get("X-User", "somebody")),
            verb="get",
            path=request.path,
            query=request.query,
            resource="inventories",
            namespace="shop",
            name=name,
            deadline=asyncio.get_running_loop().time() + seconds,
        )
        try:
            return await handler(call)
        except StatusError as error:
            return web.json_response(error.document(), status=error.code)

    app = web.Application()
    app.router.add_route("*", "/", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:

        async def ask(method: str = "GET", **arguments: Any) -> Answer:
            async with session.request(method, server.make_url("/"), **arguments) as response:
                return Answer(response.status, await response.json())

        yield ask
