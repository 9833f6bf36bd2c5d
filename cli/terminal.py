"""Sanitize text of others for a terminal.

A message of a tenant's object, a name in a repository or a line of a log may contain control
characters: escapes that colour, move, or hide output, and marks that change the direction of a
line. ``kubectl`` removes them from its tables, too. Output for programs (``-o json``) keeps them.
"""

import unicodedata
from typing import Final

_INSTEAD: Final = "\N{REPLACEMENT CHARACTER}"
_SPACE: Final = "Zs"


def printable(text: str, *, keep: str = "") -> str:
    """Return the text without control characters but those of ``keep``."""
    if text.isprintable():
        return text
    return "".join(each if _harmless(each, keep) else _INSTEAD for each in text)


def _harmless(each: str, keep: str) -> bool:
    return each.isprintable() or each in keep or unicodedata.category(each) == _SPACE
