"""A field that would change, as people read it; text of several lines is compared line by line."""

import difflib
from collections.abc import Iterator
from typing import Final

from cli.terminal import printable
from toolkit import untrusted

_MAX: Final = 1 << 20
_AROUND: Final = 2
"""Lines that are shown before and after a change."""


def lines(sign: str, path: str, before: str, after: str) -> Iterator[str]:
    """Yield the lines of a difference; ``sign`` is one of ``+ - ~``, the values are JSON or cut."""
    old, new = _text(before), _text(after)
    if "\n" in old + new:
        yield printable(f"{sign} {path}:")
        yield from (printable(f"    {line}", keep="\t") for line in _compared(old, new))
        return
    values = " → ".join(value for value in (before, after) if value)
    yield printable(f"{sign} {path}: {values}")


def _compared(old: str, new: str) -> Iterator[str]:
    found = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=_AROUND)
    for line in found:
        if not line.startswith(("---", "+++")):
            yield "…" if line.startswith("@@") else f"{line[0]} {line[1:]}".rstrip()


def _text(value: str) -> str:
    """Return the text of a value; empty if it cannot be compared line by line."""
    if not value.startswith('"'):
        return ""
    try:
        return untrusted.load_json(value, str, size=_MAX)
    except untrusted.UntrustedError:
        return ""  # It was cut.
