"""What tables show of an object: the value at a path, and digests as short as people read them.

The command line shows the same in its own tables. What a column is made of is its resource's.
"""

import re
from collections.abc import Callable
from typing import Final

from toolkit.objects import Json, dig

_HEX: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")


def text(*path: str) -> Callable[[Json], str]:
    """Return what reads the text at the path; empty where there is none."""
    return lambda obj: str(dig(obj, *path, default=""))


def number(*path: str) -> Callable[[Json], int]:
    """Return what reads the number at the path; 0 where there is none."""
    return lambda obj: int(dig(obj, *path, default=0))


def shorten(text: str) -> str:
    """Cut hexadecimal digests down to eight digits, as Flux's tables do."""
    return _HEX.sub(r"\1", text)
