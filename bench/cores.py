"""One core for what is measured, the others for who asks: neither waits for the other.

Everything else on the machine goes where it likes. Where a process may use a single core, or none
is known that is measured, nothing is moved.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench import processes


@contextmanager
def apart(roots: Iterable[int]) -> Iterator[bool]:
    """Keep process trees and this process apart in the block; tell whether they are."""
    measured, ours = processes.tree(roots), os.getpid()
    cores = {pid: os.sched_getaffinity(pid) for pid in (*measured, ours)}
    first, *others = sorted(cores[ours])
    if not measured or not others:
        yield False
        return
    try:
        for pid in measured:
            _bind(pid, {first})
        _bind(ours, set(others))
        yield True
    finally:
        for pid, before in cores.items():
            _bind(pid, before)


def _bind(pid: int, cores: set[int]) -> None:
    """Bind all threads of a process; those that they start later are bound alike."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)
