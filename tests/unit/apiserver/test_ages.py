"""Ages read as kubectl's."""

import pytest

from apiserver import ages

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 30, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 30 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (3 * YEAR + 5 * DAY, "3y5d"),
        (9 * YEAR + 5 * DAY, "9y"),
    ],
)
def test_a_duration_is_as_short_as_kubectls(seconds: int, shown: str) -> None:
    assert ages.human(seconds) == shown


def test_an_age_is_counted_from_a_timestamp() -> None:
    assert ages.age("1970-01-01T00:00:00Z", 60) == "60s"
    assert ages.age("1970-01-01T00:00:00", 60) == "60s"
    assert ages.age("", 60) == ages.age("soon", 60) == "<unknown>"
