"""Take turns: a bounded number of requests at once, fair between flows, with a bounded queue.

A flow is a namespace or a user. One that sends a thousand requests, or whose requests are slow,
must neither fill the process nor delay the others: it gets at most three quarters of the places,
waiting requests are admitted flow by flow, and the queue has a limit.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from toolkit.errors import TransientError

PLACES: Final = 64
WAITING: Final = 512
"""Four at least per place; each holds one decoded object."""
_SHARE: Final = 0.75


class BusyError(TransientError):
    """Too many wait already."""


class Turns:
    """The places of one kind of work."""

    def __init__(self, *, places: int = PLACES, waiting: int = WAITING) -> None:
        self._places = places
        self._share = max(1, int(places * _SHARE))
        self._limit = waiting
        self._running: Counter[str] = Counter()
        self._taken = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._waiting = 0

    @property
    def running(self) -> int:
        """Return the number of places in use."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Return the number of waiting callers."""
        return self._waiting

    @asynccontextmanager
    async def turn(self, flow: str) -> AsyncIterator[None]:
        """Hold a place, and wait for one if necessary; the caller sets a deadline.

        Raises:
            BusyError: too many callers wait already, in total or in this flow.
        """
        if not self._free(flow) or self._waiting:
            await self._wait(flow)
        else:
            self._take(flow)
        try:
            yield
        finally:
            self._release(flow)

    async def _wait(self, flow: str) -> None:
        queue = self._queues.get(flow)
        if self._waiting >= self._limit or (queue and len(queue) >= self._limit * _SHARE):
            raise BusyError(f"too many requests wait already ({self._waiting}); try again later")
        place = asyncio.get_running_loop().create_future()
        self._queues.setdefault(flow, deque()).append(place)
        self._waiting += 1
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            self._leave(flow, place)
            raise

    def _leave(self, flow: str, place: asyncio.Future[None]) -> None:
        """Give back a place that came too late, or stop waiting for one."""
        if place.done() and not place.cancelled():
            self._release(flow)
            return
        queue = self._queues.get(flow)
        if queue and place in queue:
            queue.remove(place)
            self._waiting -= 1
            if not queue:
                del self._queues[flow]

    def _take(self, flow: str) -> None:
        self._running[flow] += 1
        self._taken += 1

    def _release(self, flow: str) -> None:
        self._running[flow] -= 1
        self._taken -= 1
        if not self._running[flow]:
            del self._running[flow]
        self._admit()

    def _admit(self) -> None:
        """Give free places to waiting callers, from one flow after the other."""
        for flow in list(self._queues):
            if self.running >= self._places:
                return
            if not self._free(flow):
                continue
            queue = self._queues[flow]
            place = queue.popleft()
            self._waiting -= 1
            if queue:
                self._queues.move_to_end(flow)
            else:
                del self._queues[flow]
            if not place.cancelled():
                self._take(flow)
                place.set_result(None)

    def _free(self, flow: str) -> bool:
        return self.running < self._places and self._running[flow] < self._share
