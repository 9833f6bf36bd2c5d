"""Untrusted bodies of requests: bounded in size, in time and in memory.

A body that announces a small size is read at once. Large ones, and those without a size, take
turns, so that they do not fill the memory. A slow one keeps its turn until its time is over, and
does not delay small ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

_SECONDS: Final = 15.0
"""Time limit for reading a body."""
_SMALL: Final = 64 << 10
_LARGE_AT_ONCE: Final = 16


class BodyError(Exception):
    """A body was not read whole; ``status`` is that of the answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """Reads bodies of at most ``most`` bytes, which the application has as ``client_max_size``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns = asyncio.Semaphore(_LARGE_AT_ONCE)

    @contextlib.asynccontextmanager
    async def reading(self, request: web.Request) -> AsyncIterator[bytes]:
        """Give the body; a large one has its turn until the block ends.

        Raises:
            BodyError: it is too large, or takes too long.
        """
        length = request.content_length
        if length is not None and length > self._most:
            raise self._too_large()
        small = length is not None and length <= _SMALL
        async with contextlib.nullcontext() if small else self._turns:
            yield await self._read(request)

    async def _read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(_SECONDS):
                return await request.read()
        except TimeoutError as exc:
            raise BodyError("the body takes too long", status=408) from exc
        except web.HTTPRequestEntityTooLarge as exc:
            raise self._too_large() from exc

    def _too_large(self) -> BodyError:
        return BodyError(f"the body has more than {self._most} bytes", status=413)
