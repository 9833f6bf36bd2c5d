"""Untrusted bodies of requests: bounded in size, in time and in memory.

The bytes that have arrived share a budget (``toolkit.net.reading``): a slow body takes no turn from
others, and is dropped if there is no room. No namespace holds the bytes of all.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from toolkit.net.reading import Budget, NoRoomError, TooLargeError

SECONDS: Final = 15.0
"""Time limit for reading a body."""
_TOTAL: Final = 64 << 20
"""Bytes of all bodies that are read or acted upon at a time."""


class BodyError(Exception):
    """A body was not read whole; ``status`` is that of the answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """Reads bodies of at most ``most`` bytes."""

    def __init__(self, most: int, *, total: int = _TOTAL) -> None:
        self._most = most
        self._budget = Budget(total=total, each=most, seconds=SECONDS)

    @contextlib.asynccontextmanager
    async def reading(self, request: web.Request, *, flow: str = "") -> AsyncIterator[bytes]:
        """Give the body, whose bytes count for a flow until the block ends.

        Raises:
            BodyError: it is too large, takes too long, or finds no room.
        """
        async with contextlib.AsyncExitStack() as stack:
            held = self._budget.read(
                request.content.iter_any(),
                announced=request.content_length,
                deadline=asyncio.get_running_loop().time() + SECONDS,
                flow=flow,
            )
            try:
                body = await stack.enter_async_context(held)
            except TimeoutError as exc:
                raise BodyError("the body takes too long", status=408) from exc
            except TooLargeError as exc:
                raise BodyError(f"the body has more than {self._most} bytes", status=413) from exc
            except NoRoomError as exc:
                raise BodyError(str(exc), status=503) from exc
            yield body.data
