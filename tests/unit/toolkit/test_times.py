"""Times are read with their zone, or not at all."""

from datetime import UTC, datetime, timedelta

import pytest

from toolkit import times


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05.000000Z"]
)
def test_times_name_the_same_moment_in_every_zone(text: str) -> None:
    assert times.moment(text) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_texts_that_name_no_moment_are_none(text: str) -> None:
    assert times.moment(text) is None


def test_fractions_of_seconds_are_kept() -> None:
    first, second = times.moment("2026-01-02T03:04:05Z"), times.moment("2026-01-02T03:04:05.25Z")

    assert first is not None
    assert second is not None
    assert second - first == timedelta(milliseconds=250)
