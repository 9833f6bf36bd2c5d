"""Format an age as ``kubectl`` does (``apimachinery/pkg/util/duration``)."""

from datetime import UTC, datetime
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY
_SHAPES: Final = (
    # below how many seconds, the greater unit, its letter, the smaller one if it is shown
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def age(timestamp: str, now: float) -> str:
    """Return the time since an RFC 3339 timestamp; ``now`` is in seconds since the epoch."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<unknown>"
    return human(now - moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


def human(duration: float) -> str:
    """Return a duration in one unit, or in two where one is too coarse (``HumanDuration``)."""
    seconds = int(duration)
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    for below, unit, letter, smaller, small_letter in _SHAPES:
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{seconds // _YEAR}y"
