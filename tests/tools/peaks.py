"""How much memory processes came to hold, looked at while they run.

The kernel drops the record of a worker that has died, and a later look would find its successor. A
look shows the most that a process has held since its start. What it took between the last look and
its end is not seen.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE = 0.05


class Peaks:
    """The peak of each process that was seen, in bytes, also of those that have ended."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = tuple(roots)
        self._peaks: dict[int, int] = {}

    @property
    def largest(self) -> int:
        """Return the most that one process came to hold."""
        return max(self._peaks.values(), default=0)

    def look(self) -> None:
        """Read the peaks of the processes and of their children."""
        for root in self._roots:
            with suppress(OSError):  # it may have ended
                for pid in (root, *children(root)):
                    self._peaks[pid] = max(self._peaks.get(pid, 0), peak(pid))


@contextmanager
def watching(roots: Iterable[int]) -> Iterator[Peaks]:
    """Look at processes and their children until the block ends, and once more then."""
    peaks, over = Peaks(roots), threading.Event()

    def watch() -> None:
        while not over.wait(_PAUSE):
            peaks.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()
        peaks.look()


def peak(pid: int) -> int:
    """Return the most that a process has held since its start, in bytes; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def children(pid: int) -> set[int]:
    """Return the processes that a process runs now; a thread of it may end while we look.

    Raises:
        OSError: there is no such process.
    """
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found
