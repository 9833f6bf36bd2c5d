"""Delays of requests: our own deadline, and the delay that a server asks for.

A request waits for a short ``Retry-After``. A long one is remembered instead, so that no worker is
occupied: further requests to the same server with the same credentials fail at once until the time
has come.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST: Final = 3600.0
"""Seconds that a server can keep us away for."""


class Deadline:
    """A point in time, ``seconds`` from now on the loop's clock."""

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end = self._clock() + seconds

    @property
    def left(self) -> float:
        """Return the seconds that are left; never less than a moment."""
        return max(self._end - self._clock(), 0.001)

    def allows(self, wait: float) -> bool:
        """Tell whether there is time to wait and do something afterwards."""
        return wait < self.left


class Pauses:
    """Servers that asked for a delay, and its end; the most recent ones are kept."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._until: OrderedDict[Hashable, float] = OrderedDict()

    def remember(self, key: Hashable, seconds: float) -> None:
        """Leave ``key`` alone for so long."""
        self._until[key] = self._clock() + seconds
        self._until.move_to_end(key)
        while len(self._until) > _KEPT:
            self._until.popitem(last=False)

    def left(self, key: Hashable) -> float:
        """Return the seconds until requests for ``key`` are allowed."""
        left = self._until.get(key, 0.0) - self._clock()
        if left <= 0:
            self._until.pop(key, None)
            return 0.0
        return left


def asked(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the delay in seconds that a refusing server asks for.

    It is in ``Retry-After``, or in the header of hosting services with the time of the next window
    (docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    wait = retry_after(headers.get("Retry-After", ""), now)
    reset = headers.get("X-RateLimit-Reset", "")
    used_up = headers.get("X-RateLimit-Remaining") == "0"
    if wait is not None or not used_up or not _is_moment(reset):
        return wait
    seconds = float(reset) - (now or datetime.now(UTC)).timestamp()
    return min(max(seconds, 0.0), LONGEST)


def _is_moment(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _EPOCH_DIGITS


_KEPT: Final = 1024
_EPOCH_DIGITS: Final = 11
_DIGITS: Final = 9


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """Read ``Retry-After``: seconds or a date (RFC 9110, 10.2.3), at most ``LONGEST``."""
    text = value.strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return min(float(text), LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), LONGEST) if math.isfinite(seconds) else None
