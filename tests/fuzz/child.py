"""Feed one reader in a process that may die: ``python -m tests.fuzz.child <row> <seed> <secs>``.

The file that ``FUZZ_INPUT`` names holds the input that the reader takes. So it shows which input
ended the process. The kernel ends the process if an input takes more processor time than the row
states; more memory raises a ``MemoryError``, which no row expects. If the seed is the path of a
file, the process feeds only its content; ``WORST`` are the bombs and the row's worst inputs.
"""

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fuzz import hostile
from tests.fuzz.parsers import ROWS, Row

WORST: Final = "worst"


def run(name: str, seed: str, seconds: float, taken: Path, complaints: Path) -> None:
    """Feed in a fork, whose standard error goes to the file ``complaints``."""
    with complaints.open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    main(name, seed, seconds, taken)


def main(name: str, seed: str, seconds: float, taken: Path) -> None:
    """Feed until the time is over; exit with 1 at an error that no caller expects."""
    row = next(row for row in ROWS if row.name == name)
    samples = row.samples()
    for sample in samples:
        _feed(row, sample, "sample")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _data() + (row.memory << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    for label, data in _inputs(row, samples, seed, seconds):
        taken.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, row.seconds)
        _feed(row, data, label)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _data() -> int:
    """Return the bytes of data that this process has, which the imports need."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) << 10


def _inputs(
    row: Row, samples: tuple[bytes, ...], seed: str, seconds: float
) -> Iterator[tuple[str, bytes]]:
    if seed == WORST:
        for number, bomb in enumerate((*(hostile.bombs() if row.bombs else ()), *row.worst())):
            yield f"{WORST} {number}", bomb
        return
    if Path(seed).is_file():
        yield seed, Path(seed).read_bytes()
        return
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        label = f"{seed}:{number}"
        yield label, hostile.damaged(samples, random.Random(label))  # noqa: S311 - no secret
        number += 1


def _feed(row: Row, data: bytes, label: str) -> None:
    try:
        row.parse(data)
    except row.refuses:
        return
    except BaseException as exc:
        sys.stderr.write(f"{row.name}: {label}: {type(exc).__name__}: {exc}\n"[:500])
        raise


if __name__ == "__main__":
    place = Path(os.environ.get("FUZZ_INPUT", os.devnull))
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), place)
