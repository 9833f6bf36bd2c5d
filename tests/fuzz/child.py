"""Feed one reader in a process that may die: ``python -m tests.fuzz.child <row> <what>``.

The file that ``FUZZ_INPUT`` names holds the input that the reader takes. So it shows which input
ended the process. The kernel ends the process if an input takes more processor time than the row
states; more memory raises a ``MemoryError``, which no row expects. ``what`` is the path of a file,
of which the process feeds the content, ``WORST`` or ``LARGEST`` for the bombs and the row's worst
inputs, or else a seed. A seed and a number of examples always give the same inputs; what raises an
error is made as short as possible.
"""

import os
import resource
import signal
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase, settings

from tests.fuzz import hostile, planted, strategies
from tests.fuzz.parsers import ROWS, Row

WORST: Final = "worst"
LARGEST: Final = "largest"
EXAMPLES: Final = "PENSTOCK_FUZZ_EXAMPLES"
"""How many inputs a row gets, instead of its own number."""
_SMALL: Final = 128 << 10
"""Bytes of the worst inputs of every run; the largest are for slow ones."""
_SHOWN: Final = 4
"""Levels of the stack, from the innermost."""
_ROWS: Final = {row.name: row for row in (*ROWS, *planted.ROWS)}


def run(name: str, what: str, taken: Path, complaints: Path) -> None:
    """Feed in a fork, whose standard error goes to the file ``complaints``."""
    with complaints.open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    main(name, what, taken)


def main(name: str, what: str, taken: Path) -> None:
    """Feed what is asked for; exit with 1 at an error that no caller expects."""
    row = _ROWS[name]
    samples = row.samples()
    for sample in samples:
        _feed(row, sample)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _data() + (row.memory << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def take(data: bytes) -> None:
        taken.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, row.seconds)
        try:
            _feed(row, data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    try:
        if what in {WORST, LARGEST} or Path(what).is_file():
            for data in _known(row, what):
                take(data)
        else:
            _explored(row, samples, what)(take)
    except BaseException as exc:  # noqa: BLE001 - also what no reader may raise, such as SystemExit
        sys.stderr.write(f"{row.name}: {what}: {type(exc).__name__}: {str(exc)[:300]}\n")
        sys.stderr.writelines(traceback.format_tb(exc.__traceback__)[-_SHOWN:])
        raise SystemExit(1) from None


def _data() -> int:
    """Return the bytes of data that this process has, which the imports need."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) << 10


def _known(row: Row, what: str) -> Iterator[bytes]:
    if what not in {WORST, LARGEST}:
        yield Path(what).read_bytes()
        return
    size = row.size if what == LARGEST else min(row.size, _SMALL)
    if row.bombs:
        yield from hostile.bombs(min(size, 1 << 20))
    yield from row.worst(size)


def _explored(row: Row, samples: tuple[bytes, ...], seed: str) -> strategies.Exploration:
    """Return what feeds examples of the seed, and then shortens one that fails."""
    chosen = settings(
        max_examples=int(os.environ.get(EXAMPLES) or row.examples),
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
    )
    start = hypothesis.seed(zlib.crc32(f"{seed}:{row.name}".encode()))
    inputs = strategies.of(samples, row.shape)

    def explore(take: strategies.Take) -> None:
        start(chosen(hypothesis.given(inputs)(take)))()

    return explore


def _feed(row: Row, data: bytes) -> None:
    try:
        row.parse(data)
    except row.refuses:
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(os.environ.get("FUZZ_INPUT", os.devnull)))
