"""Command lines for children that end with us, and proofs of which process a number names.

A process id alone proves nothing, because the kernel uses it again; with the start time from
``/proc/<pid>/stat`` (proc(5), field 22) it names one process for good.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")


def bound_to_us(*command: str | Path) -> list[str]:
    """Return the command line that runs ``command`` and kills it when the calling thread ends.

    The kernel ties the signal to the *thread* that creates the child (prctl(2)), so create it in
    one that lives as long as the child should.
    """
    launcher = (sys.executable, "-I", "-S", _LAUNCHER, os.getpid())
    return [str(part) for part in (*launcher, *command)]


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The second field is the program's name in parentheses and may hold anything.
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in ("Z", "X") else int(fields[19])


def children(pid: int) -> tuple[int, ...]:
    """Return the processes that a process has started and that have not been waited for."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return tuple(found)


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds; 0 if it does not run."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
