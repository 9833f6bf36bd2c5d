"""What was found out about a text is kept: who changes an object leaves most of its texts alone.

About a longer text it is found out each time, or a namespace could fill the memory with them.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

LONGEST: Final = 4 << 10
"""Characters."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """A function of one text, or of what is written as one, with its last answers."""

    def __init__(self, find: Callable[[K], V], *, answers: int) -> None:
        self._find = find
        self._kept: Any = functools.lru_cache(maxsize=answers)(find)
        self.cache_info = self._kept.cache_info
        functools.update_wrapper(self, find)

    def __call__(self, about: K) -> V:
        """Return the answer; what is raised is not kept."""
        found: V = (self._kept if len(str(about)) <= LONGEST else self._find)(about)
        return found


def remembered(*, answers: int) -> Callable[[Callable[[K], V]], Remembered[K, V]]:
    """Keep so many answers of the function."""
    return lambda find: Remembered(find, answers=answers)
