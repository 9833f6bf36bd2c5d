"""No bytes end a process that others depend on, hold it up, or fill its memory.

Each reader gets the bombs and its own worst inputs, and in ``make test-slow`` damaged samples for a
minute in all. ``PENSTOCK_FUZZ_SEED`` chooses other samples; a failure names the seed, and what
failed stays in the file that it names: ``python -m tests.fuzz.child '<row>' <file> 1``.
"""

import multiprocessing
import os
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz import child
from tests.fuzz.parsers import ROWS, Row

SEED = os.environ.get("PENSTOCK_FUZZ_SEED", "penstock")
SECONDS = 90 / len(ROWS)
DEADLINE = 240.0
"""For a slow machine: what hangs is ended by its processor time long before."""
FORKS: Final = multiprocessing.get_context("forkserver")
"""The server imports all parsers once; a fork of it starts in milliseconds."""
FORKS.set_forkserver_preload([child.__name__])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_worst_input_costs_no_more_than_is_stated(row: Row, tmp_path: Path) -> None:
    feed(row, child.WORST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_hostile_bytes_are_refused(row: Row, tmp_path: Path) -> None:
    feed(row, SEED, tmp_path)


def feed(row: Row, seed: str, directory: Path) -> None:
    taken, complaints = directory / "input", directory / "stderr"

    fed = FORKS.Process(target=child.run, args=(row.name, seed, SECONDS, taken, complaints))
    fed.start()
    fed.join(DEADLINE)
    code = fed.exitcode
    if code is None:
        fed.kill()
        fed.join()

    held = taken.read_bytes()[:100] if taken.exists() else b""
    assert code == 0, (
        f"seed {seed}, exit {code} (negative: a signal, None: it hung) at the input in {taken}:"
        f" {held!r}\n{complaints.read_text()[-2000:]}"
    )
