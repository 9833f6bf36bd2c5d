"""A map with several values per key, which saves memory if most keys have one value.

Almost all of ten thousands of objects have one owner, and a set with one element takes 216 bytes.
So a set is only created for the second value.
"""

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class MultiMap(Generic[K, V]):
    """Maps keys to sets of values; a key without values is not there."""

    def __init__(self) -> None:
        self._one: dict[K, V] = {}
        self._several: dict[K, set[V]] = {}

    def add(self, key: K, value: V) -> None:
        """Add a value; do nothing if the key already has it."""
        if (several := self._several.get(key)) is not None:
            several.add(value)
        elif self._one.setdefault(key, value) != value:
            self._several[key] = {self._one.pop(key), value}

    def discard(self, key: K, value: V) -> None:
        """Remove a value; do nothing if the key does not have it."""
        if self._one.get(key) == value:
            del self._one[key]
        several = self._several.get(key)
        if several is not None:
            several.discard(value)
            if len(several) == 1:
                self._one[key] = several.pop()
                del self._several[key]

    def of(self, key: K) -> Collection[V]:
        """Return the values of a key; they must not be kept, because they may change."""
        if key in self._one:
            return (self._one[key],)
        return self._several.get(key, ())

    def __contains__(self, key: K) -> bool:
        return key in self._one or key in self._several

    def keys(self) -> Iterator[K]:
        """Yield all keys."""
        yield from self._one
        yield from self._several
