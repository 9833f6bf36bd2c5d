"""A cache of data keys that key services decrypted, for some minutes, in memory only.

With it a dry-run, the write after it and the next reconciliation cost one request together. An
entry is only found for the same request with the same credentials. If a permission is removed at
the service, the entry stays valid until its time is over.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

SECONDS: Final = 600.0
SIZE: Final = 1024


class OpenedKeys:
    """At most ``size`` data keys; errors are not cached."""

    def __init__(
        self,
        *,
        size: int = SIZE,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._asking: dict[Hashable, _Turn] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the cached data key, or that of ``ask``; callers with the same key take turns.

        Raises:
            DecryptionError: an error of ``ask``, which is not shared with other callers.
        """
        turn = self._asking.setdefault(key, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                kept = self._kept.get(key)
                if kept is not None and self._clock() < kept.until:
                    return kept.value
                value = await ask()
                self._keep(key, value)
                return value
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._asking[key]

    def _keep(self, key: Hashable, value: bytes) -> None:
        now = self._clock()
        for old in [name for name, kept in self._kept.items() if kept.until <= now]:
            del self._kept[old]
        self._kept[key] = _Kept(value=value, until=now + self._seconds)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def __repr__(self) -> str:
        return f"OpenedKeys({len(self._kept)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    value: bytes = field(repr=False)
    until: float


@dataclass(slots=True)
class _Turn:
    """The lock of a key, and the number of its users."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
