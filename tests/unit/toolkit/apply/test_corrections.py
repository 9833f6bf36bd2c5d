"""Who insists is answered later and later."""

import pytest

from toolkit.apply.corrections import Corrections


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def corrections(time: Time) -> Corrections[str]:
    return Corrections(monotonic=time)


def _insist(corrections: Corrections[str], time: Time, times: int) -> list[float]:
    """Let somebody undo every correction at once."""
    delays = []
    for _ in range(times):
        delays.append(corrections.delay("x"))
        time.now += delays[-1]
    return delays


def test_the_first_correction_is_made_at_once(corrections: Corrections[str]) -> None:
    assert corrections.delay("x") == 0


def test_pauses_double_up_to_five_minutes(corrections: Corrections[str], time: Time) -> None:
    assert _insist(corrections, time, 12) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert corrections.count("x") == 12


def test_time_since_the_last_correction_counts(corrections: Corrections[str], time: Time) -> None:
    _insist(corrections, time, 4)

    time.now += 5

    assert corrections.delay("x") == 3


def test_a_quiet_time_begins_anew(corrections: Corrections[str], time: Time) -> None:
    _insist(corrections, time, 5)

    time.now += 60 + 2 * 16 + 1

    assert corrections.delay("x") == 0
    assert corrections.count("x") == 1


def test_even_the_longest_pause_is_no_quiet_time(corrections: Corrections[str], time: Time) -> None:
    _insist(corrections, time, 12)

    time.now += 400

    assert corrections.delay("x") == 0
    assert corrections.count("x") == 13


def test_objects_do_not_disturb_each_other(corrections: Corrections[str], time: Time) -> None:
    _insist(corrections, time, 5)

    assert corrections.delay("y") == 0


def test_a_forgotten_object_begins_anew(corrections: Corrections[str], time: Time) -> None:
    _insist(corrections, time, 5)

    corrections.forget("x")

    assert corrections.count("x") == 0
    assert corrections.delay("x") == 0
