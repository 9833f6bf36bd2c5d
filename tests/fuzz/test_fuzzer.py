"""The fuzzer finds faults of each kind, says with which input, and always the same ones."""

import signal
from pathlib import Path

import pytest

from tests.fuzz import feeding

SEED = "planted"


def test_an_error_that_nobody_expects_is_found_with_a_short_input(tmp_path: Path) -> None:
    end = feeding.feed("mistyped", SEED, tmp_path)

    assert end.code == 1
    assert "AttributeError" in end.complaints
    assert b'"interval"' in end.taken
    assert b'"b"' in end.taken, "only the field differs from the sample"


@pytest.mark.parametrize(
    ("name", "ended"), [("crashing", signal.SIGABRT), ("slow", signal.SIGPROF)]
)
def test_what_ends_the_process_is_found_with_its_input(
    name: str, ended: signal.Signals, tmp_path: Path
) -> None:
    end = feeding.feed(name, SEED, tmp_path)
    again = feeding.feed(name, SEED, tmp_path)

    assert end.code == again.code == -ended
    assert end.taken == again.taken
    alone = feeding.feed(name, str(tmp_path / "input"), tmp_path)
    assert alone.code == -ended


def test_memory_above_what_the_row_states_is_found(tmp_path: Path) -> None:
    end = feeding.feed("greedy", SEED, tmp_path)

    assert end.code == 1
    assert "MemoryError" in end.complaints


def test_a_sound_reader_passes(tmp_path: Path) -> None:
    assert feeding.feed("sound", SEED, tmp_path).code == 0
