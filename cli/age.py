"""Durations as users type them, ages as kubectl prints them."""

import math
from datetime import UTC, datetime
from typing import Any, Final

import click

from crds import meta

_UNITS: Final = {"y": 365 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
_STEPS: Final = (
    (120, "s", ""),
    (600, "m", "s"),
    (3 * 3600, "m", ""),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", ""),
    (8 * 86400, "d", "h"),
    (2 * 365 * 86400, "d", ""),
    (8 * 365 * 86400, "y", "d"),
    (math.inf, "y", ""),
)
"""Below how many seconds an age is given in which unit, and in which smaller one."""


def human(seconds: float) -> str:
    """Return at most two units, the smaller one only while it matters: ``5d3h``, ``12m``, ``45s``.

    The thresholds are those of ``k8s.io/apimachinery`` (``duration.HumanDuration``).
    """
    whole = max(0, math.floor(seconds))
    large, small = next((large, small) for below, large, small in _STEPS if whole < below)
    head, rest = divmod(whole, _UNITS[large])
    tail = rest // _UNITS[small] if small else 0
    return f"{head}{large}" + (f"{tail}{small}" if tail else "")


def since(timestamp: str, now: datetime) -> str:
    """Return the age of an RFC 3339 time; ``<unknown>`` without a time."""
    if not timestamp:
        return "<unknown>"
    return human((now - parse_time(timestamp)).total_seconds())


def parse_time(timestamp: str) -> datetime:
    """Parse RFC 3339; a time without a zone is UTC.

    Raises:
        ValueError: it is not such a time.
    """
    moment = datetime.fromisoformat(timestamp)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Duration(click.ParamType[float]):
    """A click parameter: ``90s``, ``5m``, ``1h30m`` become seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse as the API does (click)."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return meta.parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration such as 30s, 5m or 1h30m", param, ctx)


DURATION: Final = Duration()
