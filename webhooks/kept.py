"""Values that are found out once at a time and kept for seconds. Errors are not kept."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

V = TypeVar("V")


class Kept(Generic[V]):
    """At most ``capacity`` values, the least used go first."""

    def __init__(self, *, seconds: float, capacity: int = 4096) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._values: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def get(self, key: Hashable, find: Callable[[], Awaitable[V]]) -> V:
        """Return the value of a key; who asks while another one finds it out waits for that.

        Where that fails or is cancelled, the next one tries.
        """
        kept = self._fresh(key)
        if kept is not None:
            return kept[0]
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            kept = self._fresh(key)
            if kept is not None:
                return kept[0]
            value = await find()
            self._values[key] = (value, _now() + self._seconds)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)
            return value

    def _fresh(self, key: Hashable) -> tuple[V, float] | None:
        kept = self._values.get(key)
        if kept is None or kept[1] <= _now():
            self._values.pop(key, None)
            return None
        self._values.move_to_end(key)
        return kept


def _now() -> float:
    return asyncio.get_running_loop().time()
