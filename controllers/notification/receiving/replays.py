"""Deliveries that were carried out before, so that none is carried out twice.

Each Receiver has its own space, so many deliveries to one do not displace those of another. The
memory is that of one process: after a restart, or at another replica, a delivery may count again.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from toolkit.objects import ObjectKey

MOST: Final = 2_000
"""Keys of one Receiver."""
_SECONDS: Final = 24 * 3600.0


class Replays:
    """Remembers deliveries of a day, the most recent of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[ObjectKey, OrderedDict[bytes, float]] = OrderedDict()

    def seen(self, receiver: ObjectKey, keys: tuple[str, ...]) -> bool:
        """Tell whether a delivery with one of the keys was acted upon, or is being so."""
        own = self._seen.get(receiver, OrderedDict[bytes, float]())
        times = [own.get(_digest(key)) for key in keys if key]
        return any(when is not None and self._clock() - when < _SECONDS for when in times)

    def note(self, receiver: ObjectKey, keys: tuple[str, ...]) -> None:
        """Remember a delivery by its keys."""
        given = [_digest(key) for key in keys if key]
        if not given:
            return
        own = self._seen.setdefault(receiver, OrderedDict())
        self._seen.move_to_end(receiver)
        now = self._clock()
        for digest in given:
            own[digest] = now
            own.move_to_end(digest)
        while len(own) > MOST:
            own.popitem(last=False)
        self._drop_old(now)

    def forget(self, receiver: ObjectKey, keys: tuple[str, ...]) -> None:
        """Let a delivery come again: it could not be acted upon."""
        if own := self._seen.get(receiver):
            for key in keys:
                own.pop(_digest(key), None)

    def _drop_old(self, now: float) -> None:
        """Drop the Receivers whose last delivery counts no more; deleted ones are among them."""
        while self._seen:
            receiver, own = next(iter(self._seen.items()))
            if own and now - next(reversed(own.values())) < _SECONDS:
                return
            del self._seen[receiver]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
