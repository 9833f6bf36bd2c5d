"""A budget for the bytes of all bodies that are held at a time.

Only bytes that have arrived count, not the size that a request announces: otherwise two connections
could announce the whole budget. If the budget is exhausted, the slowest body is dropped, provided
that it had enough time: honest clients send a body at once, so a client that sends a byte now and
then cannot keep them out. A complete body stays until it is answered, and new ones are refused
meanwhile.

A body may belong to a flow, such as a namespace. No flow holds more bytes than three times what is
left (``toolkit.turns.fair``), and the flow that holds most gives way first.
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Final

from toolkit.errors import PenstockError, TransientError
from toolkit.turns import TIMES

GRACE: Final = 0.5
"""Seconds in which a body may come while there is no room for others."""


class TooLargeError(PenstockError):
    """A body has more bytes than any may have."""


class NoRoomError(TransientError):
    """Too many bytes are held already, in total or by this flow."""


@dataclass(eq=False, slots=True, kw_only=True)
class _Coming:
    """The bytes of a body; when they are taken, its ``timeout`` ends."""

    since: float
    timeout: asyncio.Timeout
    flow: str
    size: int = 0


class Body:
    """A complete body, whose bytes count until it is answered."""

    def __init__(self, data: bytes, budget: "Budget", held: _Coming) -> None:
        self.data = data
        self._budget = budget
        self._held = held

    def belong(self, flow: str) -> None:
        """Count the bytes for a flow, which is only known from the content.

        Raises:
            NoRoomError: the flow holds too many already.
        """
        self._budget._move(self._held, flow)  # noqa: SLF001 - two classes, one thing


class Budget:
    """Limits for all bodies together, for each body, and for the time to receive one."""

    def __init__(self, *, total: int, each: int, seconds: float) -> None:
        self._total = total
        self._each = each
        self._seconds = seconds
        self._held = 0
        self._flows: Counter[str] = Counter()
        self._coming: OrderedDict[_Coming, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def read(
        self,
        parts: AsyncIterable[bytes],
        *,
        announced: int | None,
        deadline: float,
        flow: str = "",
    ) -> AsyncIterator[Body]:
        """Read a body, which counts until the end of the block; without a ``flow``, for none.

        Raises:
            TooLargeError: it is too large.
            NoRoomError: there is no room for it.
            TimeoutError: it does not come in time, or gave way.
        """
        if (announced or 0) > self._each:
            raise self._too_large()
        now = asyncio.get_running_loop().time()
        timeout = asyncio.timeout_at(min(deadline, now + self._seconds))
        body = _Coming(since=now, timeout=timeout, flow=flow)
        try:
            async with timeout:
                self._coming[body] = None
                try:
                    whole = await self._whole(parts, body)
                finally:
                    self._coming.pop(body, None)
            yield Body(whole, self, body)
        finally:
            self._count(body, -body.size)

    async def _whole(self, parts: AsyncIterable[bytes], body: _Coming) -> bytes:
        found = []
        async for part in parts:
            self._take(body, len(part))
            found.append(part)
        return b"".join(found)

    def _take(self, body: _Coming, size: int) -> None:
        if body.size + size > self._each:
            raise self._too_large()
        while not self._fits(body.flow, size):
            if not self._give_way(body.flow):
                raise NoRoomError("too many bytes are held already; try again later")
        if body not in self._coming:
            raise TimeoutError
        self._count(body, size)

    def _fits(self, flow: str, size: int) -> bool:
        left = self._total - self._held - size
        return left >= 0 and (not flow or self._flows[flow] + size <= TIMES * left)

    def _give_way(self, flow: str) -> bool:
        """Drop the slowest body of the flow that holds most, if it holds as much as ``flow``."""
        now, least = asyncio.get_running_loop().time(), self._flows[flow]
        slow = [
            each
            for each in self._coming
            if each.since + GRACE <= now and self._flows[each.flow] >= least
        ]
        if not slow:
            return False
        # The first of several with the same share, which is the one that has come for longest.
        going = max(slow, key=lambda each: self._flows[each.flow])
        del self._coming[going]
        self._count(going, -going.size)
        if not going.timeout.expired():
            going.timeout.reschedule(now)
        return True

    def _move(self, body: _Coming, flow: str) -> None:
        left = self._total - self._held
        if self._flows[flow] + body.size > TIMES * left:
            raise NoRoomError(f"too many bytes of '{flow}' are held already; try again later")
        size = body.size
        self._count(body, -size)
        body.flow = flow
        self._count(body, size)

    def _count(self, body: _Coming, size: int) -> None:
        body.size += size
        self._held += size
        if body.flow:
            self._flows[body.flow] += size
            if not self._flows[body.flow]:
                del self._flows[body.flow]

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"more than {self._each >> 20} MiB")
