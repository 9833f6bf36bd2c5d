"""Cells of tables: values at a path, and shortened digests.

The command line uses the same in its own tables. Each resource defines its columns.
"""

import re
from collections.abc import Callable
from typing import Final

from toolkit.objects import Json, dig

_HEX: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")


def text(*path: str) -> Callable[[Json], str]:
    """Return the function that reads the text at the path; empty if it is unset."""
    return lambda obj: str(dig(obj, *path, default=""))


def number(*path: str) -> Callable[[Json], int]:
    """Return the function that reads the number at the path; 0 if it is unset."""
    return lambda obj: int(dig(obj, *path, default=0))


def shorten(text: str) -> str:
    """Cut hexadecimal digests down to eight digits, as Flux's tables do."""
    return _HEX.sub(r"\1", text)
