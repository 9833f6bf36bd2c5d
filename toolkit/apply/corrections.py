"""How fast drift is corrected: at once, unless another writer keeps changing the same object.

Two writers that both insist would make a hot loop. Each correction of an object doubles the pause
before the next one, from one second to five minutes; after a quiet time it starts anew.

Pure but for the clock, which is passed in.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST: Final = 1.0
_MOST: Final = 300.0
_QUIET: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Record:
    count: int
    due: float


class Corrections(Generic[K]):
    """Counts the corrections of each object."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._records: dict[K, _Record] = {}

    def delay(self, key: K) -> float:
        """Count one more correction and return in how many seconds it may be made."""
        now = self._monotonic()
        last = self._records.get(key)
        if last is None or now - last.due > _QUIET + 2 * _pause(last.count):
            last = _Record(0, now)
        pause = max(0.0, last.due + _pause(last.count) - now)
        self._records[key] = _Record(last.count + 1, now + pause)
        return pause

    def count(self, key: K) -> int:
        """Return the number of successive corrections without a quiet time."""
        record = self._records.get(key)
        return record.count if record else 0

    def forget(self, key: K) -> None:
        """Drop the history of the object."""
        self._records.pop(key, None)


def _pause(count: int) -> float:
    return 0.0 if count == 0 else min(_MOST, _FIRST * 2.0 ** min(count - 1, 20))
