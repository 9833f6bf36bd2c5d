"""Small pieces of wiring that components share."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from toolkit.kube.manager import serve

Work = Callable[[], Awaitable[None]]


def closing(close: Work) -> Work:
    """Return a service that does nothing until it is cancelled, and then closes something."""

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await close()

    return run


def within(context: AbstractAsyncContextManager[object]) -> Work:
    """Return a service that keeps a context open until it is cancelled."""

    async def run() -> None:
        async with context:
            await asyncio.Event().wait()

    return run


def serving(application: web.Application, address: str) -> Work:
    """Return a service that serves an application on ``host:port``."""

    async def run() -> None:
        await serve(application, address)

    return run
