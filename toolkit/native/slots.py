"""Limit the number of running operations, fairly between flows, if some of them mostly wait.

Operations that compute need no more processes than there are cores; more of them cost memory and
gain nothing. So a flow, which is a namespace, has one slot for each core. Some more slots are only
for other flows: the operations of one flow may all run until their deadline.

An operation that waits for a cluster must not block others: it gives its slot back and takes a
spare one, if there is one. So does an operation that takes very long. Spare slots are shared in the
same way.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from toolkit.turns import Turn, Turns, fair, room

WAITING_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 10.0

Waits = Callable[[float], bool]
"""Tells whether an operation has waited for one answer for so many seconds."""


def never(_: float) -> bool:
    """Return False: the operation never waits for a cluster."""
    return False


class Slots:
    """``size`` slots for one flow, and ``spares`` for its operations that last.

    Such an operation has waited for one answer for ``waiting`` seconds, or has run for ``longest``.
    All flows together have ``toolkit.turns.room`` for that.
    """

    def __init__(
        self,
        size: int,
        *,
        spares: int = 0,
        waiting: float = WAITING_SECONDS,
        longest: float = LONGEST_SECONDS,
    ) -> None:
        self._turns = Turns(places=room(size))
        self._spares = room(spares)
        self._patience = waiting
        self._longest = longest
        self._lasting: deque[_Operation] = deque()
        self._spared: Counter[str] = Counter()
        self._callers = 0
        self._left = asyncio.Event()

    @asynccontextmanager
    async def taken(
        self,
        flow: str,
        *,
        timeout: float,  # noqa: ASYNC109 - it ends when there is a slot
        waits: Waits = never,
    ) -> AsyncIterator[None]:
        """Hold a slot for the block, once there is one.

        Raises:
            BusyError: too many operations wait already, in total or of this flow.
            TimeoutError: no slot was free in time.
        """
        self._callers += 1
        try:
            async with asyncio.timeout(timeout) as limit, self._turns.turn(flow) as turn:
                limit.reschedule(None)
                operation = _Operation(turn, waits, until=_now() + self._longest)
                self._look_later(operation)
                try:
                    yield
                finally:
                    self._end(operation)
        finally:
            self._callers -= 1
            self._left.set()

    async def drained(self) -> None:
        """Wait until no slot is held, and no caller waits for one."""
        while self._callers:
            self._left.clear()
            await self._left.wait()

    def _look_later(self, operation: "_Operation") -> None:
        delay = min(self._patience, max(operation.until - _now(), 0.0))
        loop = asyncio.get_running_loop()
        operation.timer = loop.call_later(delay, self._look, operation)

    def _look(self, operation: "_Operation") -> None:
        if operation.waits(self._patience) or _now() >= operation.until:
            self._lasting.append(operation)
            self._spare()
        else:
            self._look_later(operation)

    def _spare(self) -> None:
        """Move the operations that have lasted longest to spare slots, as far as these suffice."""
        for operation in tuple(self._lasting):
            flow = operation.turn.flow
            if fair(self._spared[flow], self._spared.total(), self._spares):
                self._lasting.remove(operation)
                self._spared[flow] += 1
                operation.turn.end()

    def _end(self, operation: "_Operation") -> None:
        operation.timer.cancel()
        if operation in self._lasting:
            self._lasting.remove(operation)
        elif not operation.turn.held:
            self._spared[operation.turn.flow] -= 1
            self._spared += Counter()  # Keep only flows that hold one.
            self._spare()


class _Operation:
    """One operation that holds a slot, and lasts in any case if it runs beyond ``until``."""

    timer: asyncio.TimerHandle

    def __init__(self, turn: Turn, waits: Waits, *, until: float) -> None:
        self.turn = turn
        self.waits = waits
        self.until = until


def _now() -> float:
    return asyncio.get_running_loop().time()
