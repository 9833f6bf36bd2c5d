"""A cache with a time to live. Concurrent callers share one computation. Errors are not cached.

In the last quarter of the lifetime of a value, one caller computes a new value while the others
still get the old one. So callers do not all wait when a value expires. An expired value is never
returned.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from toolkit.errors import PenstockError

_AGEING: Final = 0.25
"""The share of its time in which a value may be replaced."""

V = TypeVar("V")


class Kept(Generic[V]):
    """At most ``capacity`` values, the least used go first."""

    def __init__(self, *, seconds: float, capacity: int = 4096) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._values: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def get(self, key: Hashable, find: Callable[[], Awaitable[V]]) -> V:
        """Return the value of a key; concurrent callers wait for the same computation.

        If the computation fails or is cancelled, the next caller tries. While there is a valid
        value, the failure of an early replacement is ignored.
        """
        kept, turn = self._fresh(key), self._turns.get(key)
        if kept is not None and (self._young(kept) or (turn is not None and turn.locked())):
            return kept[0]
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            kept = self._fresh(key)
            if kept is not None and self._young(kept):
                return kept[0]
            try:
                value = await find()
            except PenstockError:
                kept = self._fresh(key)
                if kept is None:
                    raise
                return kept[0]
            self._values[key] = (value, _now() + self._seconds)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)
            return value

    def _young(self, kept: tuple[V, float]) -> bool:
        return kept[1] - _now() > self._seconds * _AGEING

    def _fresh(self, key: Hashable) -> tuple[V, float] | None:
        kept = self._values.get(key)
        if kept is None or kept[1] <= _now():
            self._values.pop(key, None)
            return None
        self._values.move_to_end(key)
        return kept


def _now() -> float:
    return asyncio.get_running_loop().time()
