"""Take turns: so many reviews at once, fair between namespaces, nobody waits in vain.

One namespace that writes a thousand objects, or whose registry is slow, may neither fill the
process nor hold up the others: it gets three quarters of the places at most, those who wait are let
in namespace by namespace, and the queue has an end.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from webhooks.plugin import DeniedError

PLACES: Final = 64
WAITING: Final = 512
"""Four at least per place; each holds one decoded object."""
_SHARE: Final = 0.75


class Turns:
    """The places of one plugin."""

    def __init__(self, *, places: int = PLACES, waiting: int = WAITING) -> None:
        self._places = places
        self._share = max(1, int(places * _SHARE))
        self._limit = waiting
        self._running: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._waiting = 0

    @property
    def running(self) -> int:
        """Return how many places are taken."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """Return how many wait for one."""
        return self._waiting

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Hold a place, waiting for one if need be; the deadline is the caller's.

        Raises:
            DeniedError: too many wait already, all told or of this namespace.
        """
        if not self._free(namespace) or self._waiting:
            await self._wait(namespace)
        else:
            self._running[namespace] += 1
        try:
            yield
        finally:
            self._release(namespace)

    async def _wait(self, namespace: str) -> None:
        queue = self._queues.get(namespace)
        if self._waiting >= self._limit or (queue and len(queue) >= self._limit * _SHARE):
            raise DeniedError(
                f"too many requests wait for admission ({self._waiting}); try again later", code=429
            )
        place = asyncio.get_running_loop().create_future()
        self._queues.setdefault(namespace, deque()).append(place)
        self._waiting += 1
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            self._leave(namespace, place)
            raise

    def _leave(self, namespace: str, place: asyncio.Future[None]) -> None:
        """Give back a place that came too late, or stop waiting for one."""
        if place.done() and not place.cancelled():
            self._release(namespace)
            return
        queue = self._queues.get(namespace)
        if queue and place in queue:
            queue.remove(place)
            self._waiting -= 1
            if not queue:
                del self._queues[namespace]

    def _release(self, namespace: str) -> None:
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._admit()

    def _admit(self) -> None:
        """Let in who waits, one namespace after the other."""
        for namespace in list(self._queues):
            if self.running >= self._places:
                return
            if not self._free(namespace):
                continue
            queue = self._queues[namespace]
            place = queue.popleft()
            self._waiting -= 1
            if queue:
                self._queues.move_to_end(namespace)
            else:
                del self._queues[namespace]
            if not place.cancelled():
                self._running[namespace] += 1
                place.set_result(None)

    def _free(self, namespace: str) -> bool:
        return self.running < self._places and self._running[namespace] < self._share
