"""A budget for the bytes of all bodies that are held at a time.

Only bytes that have arrived count, not the size that a request announces: otherwise two connections
could announce the whole budget. If the budget is exhausted, the slowest body is dropped, provided
that it had enough time: API servers send a body at once, so a client that sends a byte now and then
cannot keep them out. A complete body stays until it is answered, and new ones are refused
meanwhile.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Final

from webhooks.plugin import DeniedError

GRACE: Final = 0.5
"""Seconds in which a body may come while there is no room for others."""


@dataclass(eq=False, slots=True, kw_only=True)
class _Body:
    """The bytes of a body; when they are taken, its ``timeout`` ends."""

    since: float
    timeout: asyncio.Timeout
    size: int = 0


class Budget:
    """Limits for all bodies together, for each body, and for the time to receive one."""

    def __init__(self, *, total: int, each: int, seconds: float) -> None:
        self._total = total
        self._each = each
        self._seconds = seconds
        self._held = 0
        self._coming: OrderedDict[_Body, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def read(
        self, parts: AsyncIterable[bytes], *, announced: int | None, deadline: float
    ) -> AsyncIterator[bytes]:
        """Read a body, which counts until the end of the block.

        Raises:
            DeniedError: it is too big, or there is no room for it.
            TimeoutError: it does not come in time, or gave way.
        """
        if (announced or 0) > self._each:
            raise self._too_big()
        now = asyncio.get_running_loop().time()
        timeout = asyncio.timeout_at(min(deadline, now + self._seconds))
        body = _Body(since=now, timeout=timeout)
        try:
            async with timeout:
                self._coming[body] = None
                try:
                    whole = await self._whole(parts, body)
                finally:
                    self._coming.pop(body, None)
            yield whole
        finally:
            self._held -= body.size

    async def _whole(self, parts: AsyncIterable[bytes], body: _Body) -> bytes:
        found = []
        async for part in parts:
            self._take(body, len(part))
            found.append(part)
        return b"".join(found)

    def _take(self, body: _Body, size: int) -> None:
        if body.size + size > self._each:
            raise self._too_big()
        while self._held + size > self._total:
            if not self._give_way():
                raise DeniedError("too many bytes are being reviewed; try again later", code=429)
        if body not in self._coming:
            raise TimeoutError
        body.size += size
        self._held += size

    def _give_way(self) -> bool:
        now = asyncio.get_running_loop().time()
        oldest = next(iter(self._coming), None)
        if oldest is None or oldest.since + GRACE > now:
            return False
        del self._coming[oldest]
        self._held -= oldest.size
        oldest.size = 0
        if not oldest.timeout.expired():
            oldest.timeout.reschedule(now)
        return True

    def _too_big(self) -> DeniedError:
        return DeniedError(f"more than {self._each >> 20} MiB", code=413)
