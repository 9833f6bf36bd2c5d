"""Workers are as many as a quota allows."""

import os
from pathlib import Path

import pytest

from toolkit.native import cores

ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", ALL),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("99900000 100000", ALL),
        ("", ALL),
    ],
)
def test_quota_bounds_the_processors(tmp_path: Path, quota: str, expected: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)

    assert cores.available(file) == expected


def test_machine_without_quota_has_what_the_kernel_allows(tmp_path: Path) -> None:
    assert cores.available(tmp_path / "missing") == ALL
