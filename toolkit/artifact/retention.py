"""Which files of an owner may go: a decision about names and times, made without touching them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file of an owner's directory."""

    name: str
    modified: float
    """Seconds since the epoch."""
    size: int = 0
    """Bytes."""


def expired(
    files: Iterable[Stored], *, current: str, now: float, ttl: float, records: int
) -> tuple[str, ...]:
    """Return files older than ``ttl`` and not among the newest ``records``; never ``current``.

    Users of an older artifact can still fetch it for a while (``--artifact-retention-ttl``,
    ``--artifact-retention-records``).
    """
    return tuple(file.name for file in _spare(files, current, records) if now - file.modified > ttl)


def next_expiry(files: Iterable[Stored], *, current: str, ttl: float, records: int) -> float:
    """Return when the next of these files expires, without a new one; infinity if none does."""
    return min((file.modified + ttl for file in _spare(files, current, records)), default=math.inf)


def expiries(files: Iterable[Stored], *, ttl: float, records: int) -> dict[str, float]:
    """Return when each of the files that only their age keeps may go, unless it is current."""
    return {file.name: file.modified + ttl for file in _spare(files, "", records)}


def _spare(files: Iterable[Stored], current: str, records: int) -> list[Stored]:
    """Return the files that only their age keeps."""
    newest_first = sorted(files, key=lambda file: (file.modified, file.name), reverse=True)
    return [file for file in newest_first[records:] if file.name != current]
