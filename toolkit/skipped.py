"""Keys of a Secret that cannot be used, beside others that can.

They fail nothing and hide no other key, but anyone who gave them is told which they are: by the
entry of the Secret, by a fingerprint where it can be read, and never by content.
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
    """What is wrong, in lower case, and what to do about it if that helps."""

    def __str__(self) -> str:
        return f"'{self.entry}': {self.finding}"


def told(skipped: Iterable[Skipped | str]) -> str:
    """Return what follows a message: a semicolon and which keys were skipped, or nothing."""
    found: Sequence[str] = tuple(dict.fromkeys(map(str, skipped)))
    if not found:
        return ""
    shown = "; ".join(found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"; skipped keys: {shown}{more}"
