"""Keep two different contents of an object out of one second, so that watchers can tell them apart.

Timestamps in managedFields have whole seconds. If an apply only drops fields, in the second of the
apply before it, the entry looks as if another writer had removed these fields. A process that
watches without applying could not tell the two apart. So an apply of different content waits for
the next second. An apply of the same content, which reverts a change, does not wait.

Times are those of our clock: an answer comes after its timestamp, so a second later is a later
second there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from toolkit.apply.order import Identity

_SECOND: Final = 1.0


class Pace:
    """The objects that were written to one cluster within the last second.

    The last writes of an earlier process are unknown, so at the start every existing object counts
    as just written.
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
