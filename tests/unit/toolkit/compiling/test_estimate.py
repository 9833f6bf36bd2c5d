"""What is left of a build, from the table and from how fast it goes."""

import pytest

from controlplane import binaries
from tests.tools import programs
from toolkit.compiling import estimate
from toolkit.compiling.estimate import Cost
from toolkit.native import library


def test_at_the_beginning_the_table_counts() -> None:
    assert estimate.remaining(Cost(100, 60), done=0, elapsed=3, processors=2) == 30


def test_near_the_end_the_speed_of_this_run_counts() -> None:
    left = estimate.remaining(Cost(100, 60), done=99, elapsed=990, processors=2)

    assert left == pytest.approx(10, rel=0.02)


def test_more_packages_than_the_table_has_leave_nothing() -> None:
    assert estimate.remaining(Cost(100, 60), done=120, elapsed=50, processors=2) == 0


def test_every_part_has_a_row() -> None:
    parts = [each.name for each in (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS)]

    rows = {*parts, library.NAME, library.NAME_WITH_HELM, *programs.PROGRAMS, "azurite"}

    assert rows == set(estimate.COSTS)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(4.4, "4s"), (59.7, "1m00s"), (200, "3m20s"), (0, "0s")]
)
def test_durations_are_said_in_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert estimate.duration(seconds) == expected
