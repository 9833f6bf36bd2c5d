"""Limit the number of running operations, if some of them mostly wait.

Operations that compute need no more processes than there are cores; more of them cost memory and
gain nothing. An operation that waits for a cluster must not block others: it gives its slot back
and takes a spare one, if there is one. So does an operation that takes very long.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

WAITING_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 10.0

Waits = Callable[[float], bool]
"""Tells whether an operation has waited for one answer for so many seconds."""


def never(_: float) -> bool:
    """Return False: the operation never waits for a cluster."""
    return False


class Slots:
    """``size`` slots, and ``spares`` for operations that last.

    Such an operation has waited for one answer for ``waiting`` seconds, or has run for ``longest``.
    """

    def __init__(
        self,
        size: int,
        *,
        spares: int = 0,
        waiting: float = WAITING_SECONDS,
        longest: float = LONGEST_SECONDS,
    ) -> None:
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._spares = spares
        self._patience = waiting
        self._longest = longest
        self._waiting: deque[_Turn] = deque()
        self._spared: set[_Turn] = set()
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def taken(
        self,
        *,
        timeout: float,  # noqa: ASYNC109 - it ends when there is a slot
        waits: Waits = never,
    ) -> AsyncIterator[None]:
        """Hold a slot for the block, once there is one.

        Raises:
            TimeoutError: none was free in time.
        """
        async with asyncio.timeout(timeout):
            await self._free.acquire()
        turn = _Turn(waits, until=asyncio.get_running_loop().time() + self._longest)
        self._look_later(turn)
        try:
            yield
        finally:
            turn.stop()
            self._end(turn)

    async def drained(self) -> None:
        """Wait until no slot is held, in the order of the callers that want one."""
        for _ in range(self._size):
            await self._free.acquire()
        while self._spared:
            self._ended.clear()
            await self._ended.wait()
        for _ in range(self._size):
            self._free.release()

    def _look_later(self, turn: "_Turn") -> None:
        loop = asyncio.get_running_loop()
        left = turn.until - loop.time()
        turn.timer = loop.call_later(min(self._patience, max(left, 0.0)), self._look, turn)

    def _look(self, turn: "_Turn") -> None:
        if turn.waits(self._patience) or asyncio.get_running_loop().time() >= turn.until:
            self._waiting.append(turn)
            self._spare()
        else:
            self._look_later(turn)

    def _spare(self) -> None:
        """Move the operation that has lasted longest to a spare slot, if there are both."""
        if self._waiting and len(self._spared) < self._spares:
            self._spared.add(self._waiting.popleft())
            self._free.release()

    def _end(self, turn: "_Turn") -> None:
        if turn in self._spared:
            self._spared.remove(turn)
            self._ended.set()
            self._spare()
            return
        if turn in self._waiting:
            self._waiting.remove(turn)
        self._free.release()


class _Turn:
    """One operation that holds a slot, and lasts in any case if it runs beyond ``until``."""

    def __init__(self, waits: Waits, *, until: float) -> None:
        self.waits = waits
        self.until = until
        self.timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """Stop observing the operation."""
        if self.timer is not None:
            self.timer.cancel()
