"""One object as it is served, and one change of it.

An object is encoded when it is put, and in each other representation when somebody first asks, once
for everybody: a list is a join of these bytes, and a thousand watches send the same line.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec

from toolkit.objects import Json, ObjectKey

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


class Item:
    """An object at one version; ``obj`` and everything in it is never changed again.

    Once it is settled, nothing but its JSON is kept.
    """

    __slots__ = ("_made", "_obj", "json", "key", "order", "version")

    def __init__(self, key: ObjectKey, obj: Json, version: int) -> None:
        self.key = key
        self.order = (key.namespace, key.name)
        self.version = version
        shown = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(version)}}
        self._obj: Json | None = shown
        self.json: Final = _ENCODER.encode(shown)
        self._made: dict[Hashable, Sequence[bytes]] = {}

    @property
    def obj(self) -> Json:
        """Return the object."""
        return _DECODER.decode(self.json) if self._obj is None else self._obj

    @property
    def uid(self) -> str:
        """Return what tells it from a later object of the same name."""
        return str(self.obj["metadata"].get("uid", ""))

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels."""
        return self.obj["metadata"].get("labels") or {}

    def made(self, name: Hashable, make: Callable[["Item"], Sequence[bytes]]) -> Sequence[bytes]:
        """Return what ``make`` makes of the item; asked once for each ``name`` until settled."""
        found = self._made.get(name)
        if found is None:
            found = make(self)
            if self._obj is not None:
                self._made[name] = found
        return found

    def settle(self) -> None:
        """Drop what can be made again, for good: it is of the past, and hardly anybody asks."""
        self._made.clear()
        self._obj = None

    def same(self, obj: Json) -> bool:
        """Tell whether nothing but the resource version would change."""
        version = {"resourceVersion": self.obj["metadata"]["resourceVersion"]}
        return self.obj == obj | {"metadata": obj["metadata"] | version}

    def at(self, version: int) -> "Item":
        """Return the same object at another version."""
        return Item(self.key, self.obj, version)


class Event:
    """One object's change from what it was to what it is.

    ``olds`` are the states that a watcher may know, latest first: one, or none if the object was
    added, or several if it is not known which of them the watcher has seen.
    """

    __slots__ = ("_departed", "_fresh", "_lines", "at", "key", "new", "olds", "version", "weight")

    def __init__(
        self, *, version: int, at: float, key: ObjectKey, olds: tuple[Item, ...], new: Item | None
    ) -> None:
        self.version = version
        self.at = at
        self.key = key
        self.olds = olds
        self.new = new
        self.weight = 1_000 + 8 * sum(len(item.json) for item in olds)
        """About how many bytes of memory the past states hold."""
        self._fresh = True
        self._departed: dict[int, Item] = {}
        self._lines: dict[Hashable, bytes] = {}

    def departed(self, old: Item) -> Item:
        """Return what a watcher gets for whom the object is gone: the old one, this version.

        As ``cacher/cache_watcher.go`` convertToWatchEvent does it.
        """
        found = self._departed.get(old.version)
        if found is None:
            found = old.at(self.version)
            if self._fresh:
                self._departed[old.version] = found
        return found

    def line(self, name: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return a watch line; ``make`` is asked once for each ``name`` while the event is new."""
        found = self._lines.get(name)
        if found is None:
            found = make()
            if self._fresh:
                self._lines[name] = found
        return found

    def settle(self) -> None:
        """Drop what can be made again, for good: nearly all watchers have it."""
        self._fresh = False
        self._departed.clear()
        self._lines.clear()
        for old in self.olds:
            old.settle()
