"""Compare an output in a document with the output of a run: words, not figures.

Durations, sizes, counts, digests, ports and times differ between runs, and so does where a line is
folded. In a document, ``…`` stands for text that is left out.
"""

import re
from typing import Final

LEFT_OUT: Final = "…"
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\r")
_QUANTITY: Final = re.compile(r"\d[\d.,]*\s?(?:ms|s|min|B|KiB|MiB|GiB|%)(?![\w/])")
_FIGURE: Final = re.compile(r"\S*\d\S*")
_SHOWN: Final = 60


def plain(text: str) -> str:
    """Return a text without the control sequences of a terminal."""
    return _ESCAPE.sub("", text)


def words(text: str) -> str:
    """Return the words of a text; each figure is ``#``, and one space is between two words."""
    return " ".join(_FIGURE.sub("#", _QUANTITY.sub("#", text)).split())


def difference(shown: str, run: str) -> str | None:
    """Return the first part of ``shown`` that ``run`` does not have next, or None."""
    output = words(plain(run))
    position = 0
    for part in shown.split(LEFT_OUT):
        wanted = words(part)
        found = output.find(wanted, position)
        if found < 0:
            return _beginning(wanted, output[position:])
        position = found + len(wanted)
    return None


def _beginning(wanted: str, output: str) -> str:
    """Return ``wanted`` from a few words before the first one that differs."""
    agreed = 0
    while agreed < len(wanted) and wanted[: agreed + 1] in output:
        agreed += 1
    start = wanted.rfind(" ", 0, max(0, agreed - _SHOWN // 2)) + 1
    return wanted[start : start + _SHOWN]
