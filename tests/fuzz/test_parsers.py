"""No bytes end a process that others depend on, hold it up, or fill its memory.

A minute in all, shared between the parsers. ``PENSTOCK_FUZZ_SEED`` chooses other inputs; what
failed stays in the file that the failure names: ``python -m tests.fuzz.child '<row>' <file> 1``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.parsers import ROWS, Row

SEED = os.environ.get("PENSTOCK_FUZZ_SEED", "penstock")
SECONDS = 60 / len(ROWS)
DEADLINE = 240.0
"""For bombs, samples and a slow machine: what hangs is ended by its CPU time long before."""


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_hostile_bytes_are_refused(row: Row, tmp_path: Path) -> None:
    taken = tmp_path / "input"
    environment = {name: value for name, value in os.environ.items() if name != "RUST_BACKTRACE"}

    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.child", row.name, SEED, str(SECONDS)],
        cwd=Path(__file__).parents[2],
        env=environment | {"FUZZ_INPUT": str(taken)},
        capture_output=True,
        check=False,
        timeout=DEADLINE,
    )

    assert ended.returncode == 0, (
        f"seed {SEED}, exit {ended.returncode} (negative: a signal) at the input in {taken}:"
        f" {taken.read_bytes()[:100] if taken.exists() else b''!r}\n{ended.stderr.decode()[-2000:]}"
    )
