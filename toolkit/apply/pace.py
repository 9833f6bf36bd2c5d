"""Keeps two contents of one object out of one second, so that others can tell them apart.

Stamps in managedFields have whole seconds. An apply that only drops fields, in the second of the
apply before it, leaves the entry as somebody would who removed those fields. Who watches without
applying could not tell the one from the other. So another content waits for the next second; the
same one, which puts right what somebody has changed, does not.

Times are our own: an answer comes after its stamp, so a second later is a later second there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from toolkit.apply.order import Identity

_SECOND: Final = 1.0


class Pace:
    """What was written to one cluster within the last second.

    What an earlier process wrote just before this one began is not known, so everything that
    exists counts as written at the start.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._began = monotonic()
        self._written: dict[Identity, tuple[float, str]] = {}

    async def wait(self, identity: Identity, payload: str) -> None:
        """Wait until an object that exists may be given this content; ``payload`` is a digest."""
        written, last = self._written.get(identity, (self._began, ""))
        left = written + _SECOND - self._monotonic()
        if last != payload and left > 0:
            await self._sleep(left)

    def note(self, identity: Identity, payload: str) -> None:
        """Remember a write that the server has answered."""
        now = self._monotonic()
        self._written.pop(identity, None)
        self._written[identity] = (now, payload)
        while (oldest := next(iter(self._written))) != identity:
            if self._written[oldest][0] > now - _SECOND:
                break
            del self._written[oldest]
