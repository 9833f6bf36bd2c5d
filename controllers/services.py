"""Small pieces of wiring that components share."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

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
