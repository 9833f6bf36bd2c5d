"""Conditional and range requests, evaluated from headers only (RFC 9110, sections 13 and 14).

This is the part that a file server needs: strong entity tags, one byte range. Requests with several
ranges, or units other than bytes, are answered with the whole file, as the RFC allows.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer: its status, and the bytes to send."""

    status: int
    start: int = 0
    length: int = 0


def plan(headers: Mapping[str, str], *, etag: str, modified: float, size: int) -> Plan:
    """Decide how a GET or HEAD is answered. ``modified`` is in seconds since the epoch."""
    # 1. A validator that matches spares the body; If-None-Match makes dates irrelevant.
    if "If-None-Match" in headers:
        unchanged = _listed(headers["If-None-Match"], etag)
    else:
        unchanged = _seen(headers.get("If-Modified-Since", ""), modified)
    if unchanged:
        return Plan(status=304)
    # 2. A range of another version is not a range.
    if _same(headers.get("If-Range", ""), etag, modified):
        return _range(headers.get("Range", ""), size)
    return Plan(status=200, length=size)


_RANGE: Final = re.compile(r"bytes=(?:(?P<first>\d{1,18})-(?P<last>\d{1,18})?|-(?P<tail>\d{1,18}))")


def _range(header: str, size: int) -> Plan:
    """Return the requested range of bytes: first-last, first-, or a suffix length."""
    match = _RANGE.fullmatch(header)
    if match is None:
        return Plan(status=200, length=size)
    if match["tail"]:
        start, end = max(size - int(match["tail"]), 0), size
    else:
        start = int(match["first"])
        end = min(int(match["last"]) + 1, size) if match["last"] else size
    if start >= size:
        return Plan(status=416)
    if end <= start:
        return Plan(status=200, length=size)
    return Plan(status=206, start=start, length=end - start)


def _listed(header: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags


def _same(header: str, etag: str, modified: float) -> bool:
    """Tell whether If-Range, if there is one, names this version."""
    if not header or header == etag:
        return True
    return _date(header) == int(modified)


def _seen(header: str, modified: float) -> bool:
    date = _date(header)
    return date is not None and int(modified) <= date


def _date(header: str) -> int | None:
    try:
        return int(parsedate_to_datetime(header).timestamp())
    except (ValueError, OverflowError):
        return None
