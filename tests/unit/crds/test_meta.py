"""Durations as Go reads and prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import meta


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1m0s", 60),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("750ms", 0.75),
        ("100us", 0.0001),
        ("1µs", 0.000001),
        (".5s", 0.5),
        ("0s", 0),
        ("0", 0),
    ],
)
def test_go_durations_are_read_as_seconds(text: str, seconds: float) -> None:
    assert meta.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5m ", "-5m", "5d", "5m\n", "1h30", "٣s"])
def test_what_go_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        meta.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.75, "750ms"),
        (1.2, "1.2s"),
        (30, "30s"),
        (60, "1m0s"),
        (570, "9m30s"),
        (3600, "1h0m0s"),
        (3661.5, "1h1m1.5s"),
        (59.9996, "1m0s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(seconds: float, text: str) -> None:
    assert meta.format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**9))
def test_a_printed_duration_reads_as_the_same_number_of_milliseconds(millis: int) -> None:
    assert meta.parse_duration(meta.format_duration(millis / 1000)) == pytest.approx(millis / 1000)
