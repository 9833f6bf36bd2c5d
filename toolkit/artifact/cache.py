"""Extracted artifacts on disk: one copy per key, kept while used and while there is space.

The first caller extracts the artifact, and others wait for it, even if the first one is cancelled.
Each cache uses its own directory (`scratch`), so that files of a killed process are found and
removed.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from toolkit.artifact import scan, scratch

Produce: TypeAlias = Callable[[Path], Awaitable[int]]
"""Fills the directory that it is given; returns the size of its content in bytes."""


class Extracted:
    """One unpacked artifact, shared by all users; it must not be changed."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._encrypted: frozenset[str] | None = None
        self._lock = asyncio.Lock()

    async def encrypted(self) -> frozenset[str]:
        """Return the files that hold SOPS ciphertext, relative to ``path``; they are read once."""
        async with self._lock:
            if self._encrypted is None:
                self._encrypted = await scan.suspects(self.path)
            return self._encrypted


@dataclass(slots=True)
class _Slot:
    """A copy in the making, in use, or idle."""

    task: "asyncio.Task[Extracted]"
    users: int = 0
    idle_since: float = field(default_factory=time.monotonic)

    @property
    def failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


class Cache:
    """Directories by key. Idle ones go, the longest unused first, beyond either bound."""

    def __init__(self, root: Path, *, idle_copies: int, idle_bytes: int) -> None:
        self._root = root
        self._idle_copies = idle_copies
        self._idle_bytes = idle_bytes
        self._slots: dict[str, _Slot] = {}
        self._claim: scratch.Claim | None = None

    async def open(self) -> None:
        """Take a directory, and remove those of processes that are gone."""
        self._claim = await asyncio.to_thread(scratch.take, self._root)

    @property
    def own(self) -> Path:
        """Return the directory of this process; it is removed at its end, even if it is killed."""
        if self._claim is None:
            raise RuntimeError("the cache is not open")
        return self._claim.path

    async def close(self) -> None:
        """Cancel running work and remove all files."""
        tasks = [slot.task for slot in self._slots.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._slots.clear()
        claim, self._claim = self._claim, None
        if claim is not None:
            await asyncio.to_thread(claim.release)

    @asynccontextmanager
    async def use(self, key: str, produce: Produce) -> AsyncIterator[Extracted]:
        """Yield the copy of ``key``; if there is none, ``produce`` makes it.

        Raises the error of ``produce`` in all callers that waited for it; the next caller tries
        again.
        """
        slot = self._slots.get(key)
        if slot is None or slot.failed:
            slot = self._slots[key] = _Slot(asyncio.create_task(self._make(produce)))
        slot.users += 1
        try:
            yield await asyncio.shield(slot.task)
        finally:
            slot.users -= 1
            slot.idle_since = time.monotonic()
            await self._tidy(key, slot)

    async def _make(self, produce: Produce) -> Extracted:
        directory = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.own))
        try:
            size = await produce(directory)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        return Extracted(directory / CONTENT, size)

    async def _tidy(self, key: str, slot: _Slot) -> None:
        """Cancel work without waiting callers, drop failures, and free space."""
        abandoned = not slot.users and not slot.task.done()
        if (abandoned or slot.failed) and self._slots.get(key) is slot:
            # New callers must not wait for the work that is being cancelled.
            del self._slots[key]
        if abandoned:
            slot.task.cancel()
            await asyncio.wait([slot.task])
        for victim in self._surplus():
            gone = self._slots.pop(victim).task.result()
            await asyncio.to_thread(shutil.rmtree, gone.path.parent, ignore_errors=True)

    def _surplus(self) -> list[str]:
        """Return the idle copies that are too many, or too large together."""
        idle = {
            key: slot
            for key, slot in self._slots.items()
            if not slot.users and slot.task.done() and not slot.failed
        }
        newest_first = sorted(idle, key=lambda key: idle[key].idle_since, reverse=True)
        kept = 0
        victims = []
        for count, key in enumerate(newest_first):
            kept += idle[key].task.result().size
            if count >= self._idle_copies or kept > self._idle_bytes:
                victims.append(key)
        return victims


CONTENT: Final = "content"
"""Subdirectory that holds the files; its neighbours are the maker's own."""
