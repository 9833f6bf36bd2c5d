"""What the gate says of its own reviews: how many, how long, how many within the target.

From ``penstock_admission_duration_seconds``: the time in our process, TLS and HTTP not included.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import aiohttp

TARGET: Final = 0.01
"""Seconds; a bucket of the histogram."""
_LINE: Final = re.compile(
    r"^penstock_admission_duration_seconds_(bucket|count|sum)\{([^}]*)\} (\S+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviews:
    """Totals since the process was started; ``within`` is how many took ``TARGET`` at most."""

    count: float = 0.0
    seconds: float = 0.0
    within: float = 0.0

    def since(self, before: "Reviews") -> "Reviews":
        """Return what came after ``before``."""
        return Reviews(
            count=self.count - before.count,
            seconds=self.seconds - before.seconds,
            within=self.within - before.within,
        )

    def told(self, requests: int) -> str:
        """Return a note about the reviews of so many requests."""
        if not self.count:
            return "not asked"
        each, mean = self.count / requests, self.seconds / self.count
        return (
            f"{each:.1f} reviews of {mean * 1000:.2f} ms,"
            f" {self.within / self.count:.1%} below {TARGET * 1000:.0f} ms"
        )


async def read(urls: Iterable[str]) -> Reviews:
    """Return the totals over metrics endpoints."""
    found = Reviews()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        for url in urls:
            async with session.get(url) as response:
                found = parsed(await response.text(), found)
    return found


def parsed(text: str, before: Reviews | None = None) -> Reviews:
    """Return the totals in a page of metrics, added to those before."""
    totals = {"count": 0.0, "sum": 0.0, "bucket": 0.0}
    for series, labels, value in _LINE.findall(text):
        if series != "bucket" or f'le="{TARGET:g}"' in labels.split(","):
            totals[series] += float(value)
    before = before or Reviews()
    return Reviews(
        count=before.count + totals["count"],
        seconds=before.seconds + totals["sum"],
        within=before.within + totals["bucket"],
    )
