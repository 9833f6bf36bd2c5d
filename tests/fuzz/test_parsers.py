"""No bytes end a process that others depend on, hold it up, or fill its memory.

Each reader gets the bombs and its own worst inputs: small ones in every run, and the largest that
it takes in ``make test-slow``, with documents and texts that Hypothesis makes up.
``PENSTOCK_FUZZ_SEED`` chooses others, and ``PENSTOCK_FUZZ_EXAMPLES`` how many for each reader. A
failure names the seed, and what failed stays in the file that it names:
``python -m tests.fuzz.child '<row>' <file>``. Keep what was found in ``found/``, for ever.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz import child, feeding
from tests.fuzz.parsers import ROWS, Row

SEED: Final = os.environ.get("PENSTOCK_FUZZ_SEED", "penstock")
FOUND: Final = Path(__file__).parent / "found"
"""A folder for each row, named like it, with inputs that it once took badly."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_worst_input_costs_no_more_than_is_stated(row: Row, tmp_path: Path) -> None:
    require_good(row, child.WORST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_largest_input_costs_no_more_than_is_stated(row: Row, tmp_path: Path) -> None:
    require_good(row, child.LARGEST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_is_nearly_right_is_taken_or_refused(row: Row, tmp_path: Path) -> None:
    require_good(row, SEED, tmp_path)


@pytest.mark.parametrize(
    "found", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}: {path.name}"
)
def test_what_was_found_stays_mended(found: Path, tmp_path: Path) -> None:
    (row,) = (row for row in ROWS if row.name == found.parent.name)

    require_good(row, str(found), tmp_path)


def require_good(row: Row, what: str, directory: Path) -> None:
    end = feeding.feed(row.name, what, directory)

    assert end.code == 0, (
        f"PENSTOCK_FUZZ_SEED={what}, exit {end.code} (negative: a signal, None: it hung)"
        f" at the input in {directory / 'input'}: {end.taken[:100]!r}\n{end.complaints}"
    )
