"""Cached results for texts: most changes of an object leave most of its texts unchanged.

Results for long texts are not cached, because a namespace could fill the memory with them.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

LONGEST: Final = 4 << 10
"""Characters."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """A function of one text, or of a value that can be written as one, with a cache."""

    def __init__(self, find: Callable[[K], V], *, answers: int) -> None:
        self._find = find
        self._kept: Any = functools.lru_cache(maxsize=answers)(find)
        self.cache_info = self._kept.cache_info
        functools.update_wrapper(self, find)

    def __call__(self, about: K) -> V:
        """Return the result; errors are not cached."""
        found: V = (self._kept if len(str(about)) <= LONGEST else self._find)(about)
        return found


def remembered(*, answers: int) -> Callable[[Callable[[K], V]], Remembered[K, V]]:
    """Keep so many answers of the function."""
    return lambda find: Remembered(find, answers=answers)
