"""Processor time and memory of process trees, read from ``/proc`` (proc(5)).

Memory is the proportional set size: what the processes take from the machine together, shared pages
counted once.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_EVERY: Final = 0.5
_COMPONENTS: Final = "--components="


def tree(roots: Iterable[int]) -> set[int]:
    """Return the processes and all their descendants that run now."""
    children: dict[int, list[int]] = {}
    for pid, fields in _all_stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, ())
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the processor time of the trees so far, with that of children that have ended."""
    return sum(_ticks(pid) for pid in tree(roots)) / _TICK


def cpu_by_component(roots: Iterable[int]) -> dict[str, float]:
    """Return the processor time of each tree, by what of Penstock its root runs."""
    return {_component(root): cpu_seconds([root]) for root in roots}


def memory_bytes(roots: Iterable[int]) -> int:
    """Return the proportional set size of the trees."""
    return sum(_proportional(pid) for pid in tree(roots))


def memory_by_component(roots: Iterable[int]) -> dict[str, int]:
    """Return the proportional set size of each tree, by what of Penstock its root runs."""
    return {_component(root): memory_bytes([root]) for root in roots}


def sizes(pid: int) -> tuple[int, int]:
    """Return the resident and the proportional set size of one process, in KiB."""
    rolled = _rolled(pid)
    return rolled.get("Rss", 0), rolled.get("Pss", 0)


def name(pid: int) -> str:
    """Return what a process is called: the module that Python runs and its words, or a program."""
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if "-m" not in line:
            return Path(line[0]).name
        words = takewhile(lambda word: not word.startswith("-"), line[line.index("-m") + 1 :])
        return " ".join(words).strip()
    return str(pid)


def _component(pid: int) -> str:
    with suppress(OSError):
        for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            if word.startswith(_COMPONENTS):
                return word.removeprefix(_COMPONENTS)
    return f"{name(pid)} {pid}"


class Peak:
    """The highest memory seen since the last ``reset``; ``bytes`` is 0 without processes."""

    def __init__(self, roots: tuple[int, ...]) -> None:
        self._roots = roots
        self.bytes = 0

    def reset(self) -> None:
        """Begin anew."""
        self.bytes = 0
        self.look()

    def look(self) -> None:
        """Measure now."""
        self.bytes = max(self.bytes, memory_bytes(self._roots))

    @classmethod
    @asynccontextmanager
    async def watch(cls, roots: tuple[int, ...]) -> AsyncIterator["Peak"]:
        """Look twice a second until the block ends."""
        peak = cls(roots)

        async def look() -> None:
            while True:
                await asyncio.to_thread(peak.look)
                await asyncio.sleep(_EVERY)

        task = asyncio.create_task(look())
        try:
            yield peak
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _all_stats() -> Iterable[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                yield int(entry.name), fields


def _stat(pid: int) -> list[str]:
    """Return the fields after the program's name, which may hold anything."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _ticks(pid: int) -> int:
    # utime, stime, cutime, cstime are fields 14 to 17; the list starts at field 3.
    return sum(int(field) for field in _stat(pid)[11:15])


def _proportional(pid: int) -> int:
    return _rolled(pid).get("Pss", 0) * 1024


def _rolled(pid: int) -> dict[str, int]:
    """Return the sums of ``smaps_rollup``, in KiB; empty if the process has ended."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            key, _, rest = line.partition(":")
            found[key] = int(rest.split()[0])
    return found
