"""Ages read as kubectl's do; durations are Go's."""

from datetime import UTC, datetime

import click
import pytest

from cli import age


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 + 300, "8h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400 + 3600, "8d"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (9 * 365 * 86400 + 86400, "9y"),
    ],
)
def test_age_has_the_units_that_kubectl_shows(seconds: float, text: str) -> None:
    assert age.human(seconds) == text


def test_age_of_a_kubernetes_time_is_counted_in_utc() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)

    assert age.since("2026-01-01T11:00:00Z", now) == "60m"
    assert age.since("2026-01-01T11:59:30.250000Z", now) == "29s"


def test_missing_time_has_no_age() -> None:
    assert age.since("", datetime.now(UTC)) == "<unknown>"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("1.5m", 90)])
def test_duration_parameter_takes_go_durations(text: str, seconds: float) -> None:
    assert age.DURATION.convert(text, None, None) == seconds


def test_wrong_duration_is_refused_with_an_example() -> None:
    with pytest.raises(click.BadParameter, match=r"'soon' is not a duration such as 30s"):
        age.DURATION.convert("soon", None, None)
