"""One lock per key, as long as a task holds or awaits it."""

import asyncio
from weakref import WeakValueDictionary


class Locks:
    """Returns the same lock to all concurrent callers with the same key."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """Return the lock of ``key``."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
