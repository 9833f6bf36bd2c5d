"""How many operations run at once, where some of them do little but wait.

Operations that compute need no more processes than there are cores; more of them cost memory and
gain nothing. One that lasts is most likely waiting for a cluster, and must not hold up others: it
gives its slot away and takes a spare one, as long as there are any.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

LASTING_SECONDS: Final = 2.0


class Slots:
    """``size`` slots, and ``spares`` for operations that run longer than ``lasting`` seconds."""

    def __init__(self, size: int, *, spares: int = 0, lasting: float = LASTING_SECONDS) -> None:
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._spares = spares
        self._lasting = lasting
        self._waiting: deque[_Turn] = deque()
        self._spared: set[_Turn] = set()
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def taken(self, *, timeout: float) -> AsyncIterator[None]:  # noqa: ASYNC109
        """Hold a slot for the block, once there is one.

        Raises:
            TimeoutError: none was free in time.
        """
        async with asyncio.timeout(timeout):
            await self._free.acquire()
        turn = _Turn()
        timer = asyncio.get_running_loop().call_later(self._lasting, self._lasts, turn)
        try:
            yield
        finally:
            timer.cancel()
            self._end(turn)

    async def drained(self) -> None:
        """Wait until no slot is held, in the order of those who want one."""
        for _ in range(self._size):
            await self._free.acquire()
        while self._spared:
            self._ended.clear()
            await self._ended.wait()
        for _ in range(self._size):
            self._free.release()

    def _lasts(self, turn: "_Turn") -> None:
        self._waiting.append(turn)
        self._spare()

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
    """One operation that holds a slot."""
