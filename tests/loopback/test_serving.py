"""A server of the tests that is ended leaves no connection, whenever it was accepted."""

import asyncio
import contextlib
import gc
import socket

import pytest
from aiohttp import web

from tests.fakes.serving import serving


async def _answer(_: web.Request) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("turns", range(6))
async def test_connection_of_the_last_moment_is_ended(turns: int) -> None:
    gc.disable()  # which would close what is forgotten
    try:
        async with contextlib.AsyncExitStack() as server:
            port = await server.enter_async_context(serving(_answer))
            client = socket.create_connection(("127.0.0.1", port), timeout=5)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.aclose()

        with client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    finally:
        gc.enable()
