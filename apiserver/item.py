"""One object as it is served, and one change of it.

An object is encoded when it is put, and in each other representation at the first request for it,
once for all clients: a list is a join of these bytes, and a thousand watches send the same line.
Only the JSON stays in memory for long. The decoded object takes four times as much.
"""

import sys
import zlib
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from typing import Any, Final

import msgspec

from toolkit.objects import Json, ObjectKey

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_FOLLOWING: Final = 32
"""Differences that are to be read one after another, at most."""
_NOTHING: Final[dict[Any, Any]] = {}
"""The empty cache of settled items and events."""
_LEVEL: Final = 1
_WINDOW: Final = -15
"""Deflate without a header (zlib.h, ``deflateInit2``), with 32 KiB of what came before."""


class _Labelled(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Metadata(msgspec.Struct, gc=False):
    metadata: _Labelled


_METADATA: Final = msgspec.json.Decoder(_Metadata)


class Item:
    """An object at one version; ``obj`` and everything in it is never changed again.

    Once it rests, it is decoded for each caller. Once it is settled, nothing but its JSON is kept.
    Where a later version is at hand, that is kept as the difference to it: a twentieth of its size,
    which takes a microsecond to read. There may be several differences to read, so what is asked of
    many past states is kept beside.
    """

    __slots__ = ("_kept", "_made", "_obj", "following", "key", "size", "uid", "version")

    def __init__(self, key: ObjectKey, obj: Json, version: int) -> None:
        self.key = key
        self.version = version
        shown = _versioned(obj, version)
        self._obj: Json | None = shown
        encoded = _ENCODER.encode(shown)
        self._kept: bytes | tuple[bytes, Item] = encoded
        self.size: Final = len(encoded)
        """Bytes of the JSON."""
        self.uid: Final = sys.intern(str(shown["metadata"].get("uid", "")))
        """The uid, which differs from that of a later object with the same name; one text for all
        versions."""
        self.following = 0
        """The maximal number of differences that must be read one after another through this item.
        """
        self._made: MutableMapping[Hashable, Sequence[bytes]] | None = None

    @property
    def order(self) -> tuple[str, str]:
        """Return its place among others: by namespace and name."""
        return self.key.namespace, self.key.name

    @property
    def json(self) -> bytes:
        """Return the object as JSON."""
        kept = self._kept
        if isinstance(kept, bytes):
            return kept
        difference, later = kept
        return zlib.decompressobj(_WINDOW, zdict=later.json).decompress(difference)

    @property
    def obj(self) -> Json:
        """Return the object."""
        return _DECODER.decode(self.json) if self._obj is None else self._obj

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels."""
        if self._obj is not None:
            return self._obj["metadata"].get("labels") or {}
        return _METADATA.decode(self.json).metadata.labels or {}

    def made(self, name: Hashable, make: Callable[["Item"], Sequence[bytes]]) -> Sequence[bytes]:
        """Return the result of ``make``, called once per ``name`` until the item is settled."""
        if self._made is None:
            self._made = {}
        found = self._made.get(name)
        if found is None:
            found = make(self)
            if self._made is not _NOTHING:
                self._made[name] = found
        return found

    def rest(self) -> None:
        """Drop the decoded object: nobody is about to ask for it."""
        self._obj = None

    def settle(self, later: "Item | None" = None) -> None:
        """Drop the cached results permanently, because the item is old and rarely read.

        ``later`` is a later version of the object.
        """
        self._made = _NOTHING
        self._obj = None
        kept = self._kept
        if later is None or later is self or self.following >= _FOLLOWING:
            return
        if not isinstance(kept, bytes):  # that was done before
            return
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, zdict=later.json)
        self._kept = (packer.compress(kept) + packer.flush(), later)
        later.following = max(later.following, self.following + 1)

    def same(self, obj: Json) -> bool:
        """Tell whether nothing but the resource version would change."""
        told = _ENCODER.encode(_versioned(obj, self.version))
        if len(told) != self.size:
            return False
        # The members of equal objects may stand in another order.
        return told == self.json or _DECODER.decode(told) == self.obj

    def at(self, version: int) -> "Item":
        """Return the same object at another version."""
        return Item(self.key, self.obj, version)


def _versioned(obj: Json, version: int) -> Json:
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(version)}}


class Event:
    """The change of one object from its old state to its new one.

    ``olds`` are the states that a watch may have sent, latest first: one, none if the object was
    added, or several if it is unknown which of them was sent.
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
        self.weight = 1_000 + 8 * sum(item.size for item in olds)
        """About how many bytes of memory the past states hold."""
        self._fresh = True
        self._departed: MutableMapping[int, Item] = {}
        self._lines: MutableMapping[Hashable, bytes] = {}

    def departed(self, old: Item) -> Item:
        """Return the object for a watch that no longer selects it: the old one, this version.

        The rule is that of ``cacher/cache_watcher.go`` convertToWatchEvent.
        """
        found = self._departed.get(old.version)
        if found is None:
            found = old.at(self.version)
            if self._fresh:
                self._departed[old.version] = found
        return found

    def line(self, name: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return a watch line; ``make`` is called once per ``name`` while the event is new."""
        found = self._lines.get(name)
        if found is None:
            found = make()
            if self._fresh:
                self._lines[name] = found
        return found

    def settle(self) -> None:
        """Drop what can be made again, for good: nearly all watchers have it."""
        self._fresh = False
        self._departed = _NOTHING
        self._lines = _NOTHING
        for old in self.olds:
            old.settle(self.new)
        if self.new is not None:
            self.new.rest()
