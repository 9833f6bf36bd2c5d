"""Keys of a Secret that cannot be used, while others can.

They cause no error and hide no other key. But they are reported to the user, by the entry of the
Secret and by a fingerprint if it can be read, never by their content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SHOWN: Final = 5
"""More are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One entry, or one key of it, and why it was skipped."""

    entry: str
    """Key of the Secret's data."""
    finding: str
    """The problem, in lower case, and the remedy if there is one."""

    def __str__(self) -> str:
        return f"'{self.entry}': {self.finding}"


def told(skipped: Iterable[Skipped | str]) -> str:
    """Return the end of a message: a semicolon and the skipped keys; empty if there are none."""
    found: Sequence[str] = tuple(dict.fromkeys(map(str, skipped)))
    if not found:
        return ""
    shown = "; ".join(found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"; skipped keys: {shown}{more}"
