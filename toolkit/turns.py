"""Take turns: a bounded number of requests at once, fair between flows, with a bounded queue.

A flow is a namespace or a user. One that sends a thousand requests, or whose requests are slow,
must neither fill the process nor delay the others. So no flow may hold more than ``fair`` allows,
and the same holds for the places of the queue. Waiting requests are admitted flow by flow.

A place is for work. A request that waits for a server of someone else gives its place back
meanwhile (``Turn.away``); how many may be away is bounded and fair, too.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final, Protocol

from toolkit.errors import TransientError

PLACES: Final = 64
WAITING: Final = 512
"""Four at least per place; each holds one decoded object."""
_AWAY: Final = 4
"""Requests that are away, for each place."""
_SHARE: Final = 0.75
TIMES: Final = 3
"""A flow holds at most so many times what is left."""
ALONE: Final = ""
"""The flow of a process that works for one user."""


class BusyError(TransientError):
    """Too many wait already."""


def fair(own: int, taken: int, places: int) -> bool:
    """Tell whether a flow that holds ``own`` of ``places`` may have another one.

    A flow holds at most three quarters of all, and at most three times what is left. So two flows
    never hold everything: with n busy flows, one place in 3n + 1 is left for the next one
    (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches").
    """
    left = places - taken
    return left > 0 and own < max(1, int(places * _SHARE)) and own < TIMES * left


def room(alone: int) -> int:
    """Return the smallest number of places of which one flow may hold ``alone``, and never all."""
    if not alone:
        return 0
    places = alone + 1
    while not all(fair(own, own, places) for own in range(alone)):
        places += 1
    return places


class Place(Protocol):
    """What a request knows of its place."""

    def away(self) -> AbstractAsyncContextManager[None]:
        """Give the place back for the block, and wait for one afterwards."""
        ...


class Unbounded:
    """The place of a request that no one counts."""

    def away(self) -> AbstractAsyncContextManager[None]:
        """Do nothing."""
        return nullcontext()


class Turns:
    """The places of one kind of work."""

    def __init__(self, *, places: int = PLACES, waiting: int = WAITING) -> None:
        self._places = places
        self._limit = waiting
        self._running: Counter[str] = Counter()
        self._taken = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._waiting = 0
        self._away: Counter[str] = Counter()
        self._gone = 0

    @property
    def running(self) -> int:
        """Return the number of places in use."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Return the number of waiting callers."""
        return self._waiting

    @asynccontextmanager
    async def turn(self, flow: str) -> AsyncIterator["Turn"]:
        """Hold a place, and wait for one if necessary; the caller sets a deadline.

        Raises:
            BusyError: too many callers wait already, in total or in this flow.
        """
        await self._enter(flow)
        turn = Turn(self, flow)
        try:
            yield turn
        finally:
            turn.end()

    async def _enter(self, flow: str) -> None:
        if not self._free(flow) or self._waiting:
            await self._wait(flow)
        else:
            self._take(flow)

    async def _wait(self, flow: str) -> None:
        queue = self._queues.get(flow, ())
        if not fair(len(queue), self._waiting, self._limit):
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
        return fair(self._running[flow], self._taken, self._places)

    @asynccontextmanager
    async def _without(self, turn: "Turn") -> AsyncIterator[None]:
        flow = turn.flow
        if not turn.held or not fair(self._away[flow], self._gone, _AWAY * self._places):
            yield
            return
        turn.held = False
        self._away[flow] += 1
        self._gone += 1
        self._release(flow)
        try:
            yield
        finally:
            self._gone -= 1
            self._away[flow] -= 1
            if not self._away[flow]:
                del self._away[flow]
        await self._enter(flow)
        turn.held = True


class Turn:
    """A place that a caller holds; ``held`` is false while the caller is away."""

    def __init__(self, turns: Turns, flow: str) -> None:
        self._turns = turns
        self.flow = flow
        self.held = True

    def away(self) -> AbstractAsyncContextManager[None]:
        """Give the place back for the block, and wait for one afterwards.

        If too many of the flow are away already, the place is kept. After an error in the block,
        the caller has no place any more, and must end.

        Raises:
            BusyError: too many wait for a place afterwards.
        """
        return self._turns._without(self)  # noqa: SLF001 - two classes, one thing

    def end(self) -> None:
        """Give the place back for good, if the caller has one."""
        if self.held:
            self.held = False
            self._turns._release(self.flow)  # noqa: SLF001 - two classes, one thing
