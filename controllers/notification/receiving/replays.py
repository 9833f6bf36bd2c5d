"""Deliveries that were acted upon, so that they count once."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from toolkit.objects import ObjectKey

_MOST: Final = 20_000
_SECONDS: Final = 24 * 3600.0


class Replays:
    """Remembers deliveries of a day, the most recent of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def seen(self, receiver: ObjectKey, once: str) -> bool:
        """Tell whether a delivery was acted upon, or is being so."""
        when = self._seen.get(_digest(receiver, once))
        return bool(once) and when is not None and self._clock() - when < _SECONDS

    def note(self, receiver: ObjectKey, once: str) -> None:
        """Remember a delivery."""
        if once:
            self._seen[_digest(receiver, once)] = self._clock()
            while len(self._seen) > _MOST:
                self._seen.popitem(last=False)

    def forget(self, receiver: ObjectKey, once: str) -> None:
        """Let a delivery come again: it could not be acted upon."""
        self._seen.pop(_digest(receiver, once), None)


def _digest(receiver: ObjectKey, once: str) -> bytes:
    return hashlib.sha256(f"{receiver}\0{once}".encode()).digest()
