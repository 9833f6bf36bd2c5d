"""Deliveries that were carried out before, so that none is carried out twice.

Each namespace has its own space, so many deliveries to one tenant's Receivers do not displace those
of other tenants.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from toolkit.objects import ObjectKey

MOST: Final = 5_000
"""Deliveries of one namespace."""
_SECONDS: Final = 24 * 3600.0


class Replays:
    """Remembers deliveries of a day, the most recent of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, OrderedDict[bytes, float]] = {}

    def seen(self, receiver: ObjectKey, once: str) -> bool:
        """Tell whether a delivery was acted upon, or is being so."""
        own = self._seen.get(receiver.namespace)
        when = own.get(_digest(receiver, once)) if own else None
        return bool(once) and when is not None and self._clock() - when < _SECONDS

    def note(self, receiver: ObjectKey, once: str) -> None:
        """Remember a delivery."""
        if not once:
            return
        own = self._seen.setdefault(receiver.namespace, OrderedDict())
        own[_digest(receiver, once)] = self._clock()
        while len(own) > MOST:
            own.popitem(last=False)

    def forget(self, receiver: ObjectKey, once: str) -> None:
        """Let a delivery come again: it could not be acted upon."""
        if own := self._seen.get(receiver.namespace):
            own.pop(_digest(receiver, once), None)


def _digest(receiver: ObjectKey, once: str) -> bytes:
    return hashlib.sha256(f"{receiver}\0{once}".encode()).digest()
