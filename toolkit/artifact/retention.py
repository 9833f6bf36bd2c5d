"""Which files of an owner may go: a decision about names and times, made without touching them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file of an owner's directory."""

    name: str
    modified: float
    """Seconds since the epoch."""


def expired(
    files: Iterable[Stored], *, current: str, now: float, ttl: float, records: int
) -> tuple[str, ...]:
    """Return what is older than ``ttl`` and not among the newest ``records``; never ``current``.

    Consumers that were told of an older artifact a moment ago can still fetch it
    (``--artifact-retention-ttl``, ``--artifact-retention-records``).
    """
    newest_first = sorted(files, key=lambda file: (file.modified, file.name), reverse=True)
    return tuple(
        file.name
        for file in newest_first[records:]
        if file.name != current and now - file.modified > ttl
    )
