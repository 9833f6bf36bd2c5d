"""The objects of a pack file on disk, in memory that does not grow with them.

A pack that a server sent is not trusted: every object is inflated once to learn its id, and an
object exists here only under the id that its content has. dulwich reads packs too, but holds whole
objects and maps whole packs: 205 MiB for a repository of 200 MB where this takes 2
(docs/adr/0004-dulwich-in-workers.md). Objects above a mebibyte go through temporary files.

Only self-contained packs are read: nothing is ever fetched against something we have.
"""

import hashlib
import os
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Self, TypeAlias

from toolkit.remote.git import delta
from toolkit.remote.git.delta import Body
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import METADATA_BYTES, Limits, MiB

COMMIT, TREE, BLOB, TAG = 1, 2, 3, 4
KINDS: Final = {COMMIT: "commit", TREE: "tree", BLOB: "blob", TAG: "tag"}
_OFS_DELTA, _REF_DELTA = 6, 7

_READ: Final = 64 << 10
_INFLATE: Final = 256 << 10
_CACHE: Final = 16 * MiB
_HEADER: Final = 48
"""Bytes that hold any entry's header: two numbers of ten bytes, or one and an id."""

_Base: TypeAlias = int | bytes | None


@dataclass(slots=True)
class _Entry:
    """One object: the position of its data, its inflated size, and the base of a delta.

    ``rank`` is the order of deltas: a base, followed by all deltas on it.
    """

    kind: int
    start: int
    size: int
    base: int | None = None
    rank: int = 0
    oid: bytes = b""
    content_size: int = 0


class Pack:
    """Random access to a pack by object id; ids are 40 hex digits as bytes."""

    def __init__(self, path: Path, *, limits: Limits) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._scratch = path.parent
        self._limits = limits
        self._entries: dict[int, _Entry] = {}
        self._offsets: dict[bytes, int] = {}
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cached = 0
        self._inflated_bytes = 0
        try:
            self._resolve(self._scan())
        except zlib.error as exc:
            self.close()
            raise GitError(f"the server sent a damaged pack: {exc}") from exc
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it may be deleted then."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __contains__(self, oid: bytes) -> bool:
        return bytes.fromhex(oid.decode()) in self._offsets

    def rank(self, oid: bytes) -> int:
        """Return a number to sort by: in this order each base is read shortly before its deltas."""
        return self._entries[self._offset(oid)].rank

    def kind(self, oid: bytes) -> int:
        """Return the object's type."""
        return self._entries[self._offset(oid)].kind

    def size(self, oid: bytes) -> int:
        """Return the object's size without reading it."""
        return self._entries[self._offset(oid)].content_size

    def read(self, oid: bytes, kind: int) -> bytes:
        """Return a commit, tree, tag or small blob.

        Raises:
            GitError: it is missing, of another kind, or too large to be held.

        """
        offset = self._offset(oid)
        entry = self._entries[offset]
        if entry.kind != kind:
            found = KINDS[entry.kind]
            raise GitError(f"object {oid.decode()} is a {found}, expected a {KINDS[kind]}")
        if entry.content_size > METADATA_BYTES:
            raise GitError(
                f"{KINDS[kind]} {oid.decode()} has {entry.content_size} bytes, "
                f"more than the {METADATA_BYTES} allowed"
            )
        return b"".join(delta.chunks(self._body(offset)))

    def copy(self, oid: bytes, write: Callable[[bytes], object]) -> None:
        """Pass the object's content to ``write``, piece by piece."""
        offset = self._offset(oid)
        entry = self._entries[offset]
        pieces = self._inflate(entry) if entry.base is None else delta.chunks(self._body(offset))
        for piece in pieces:
            write(piece)

    def _offset(self, oid: bytes) -> int:
        try:
            return self._offsets[bytes.fromhex(oid.decode())]
        except KeyError:
            raise GitError(f"the server did not send object {oid.decode()}") from None

    def _scan(self) -> dict[int | bytes, list[int]]:
        """Read all entries, compute the ids of undeltified ones, and return the deltas by base."""
        signature = os.pread(self._fd, 12, 0)
        if signature[:4] != b"PACK" or int.from_bytes(signature[4:8]) not in {2, 3}:
            raise GitError("the server sent something that is not a pack")
        number = int.from_bytes(signature[8:12])
        if number > self._limits.objects:
            raise GitError(
                f"the repository has {number} objects, more than the {self._limits.objects} allowed"
            )
        deltas: defaultdict[int | bytes, list[int]] = defaultdict(list)
        offset = 12
        for _ in range(number):
            entry, base = self._header(offset)
            self._count(entry.size)
            self._entries[offset] = entry
            if base is not None:
                deltas[base].append(offset)
            offset = self._measure(offset, entry, named=base is None)
        return deltas

    def _header(self, offset: int) -> tuple[_Entry, _Base]:
        """Read an entry's header (gitformat-pack(5))."""
        raw = os.pread(self._fd, _HEADER, offset)
        try:
            kind, size, used = _kind_and_size(raw)
            base: _Base = None
            if kind == _OFS_DELTA:
                distance, used = _distance(raw, used)
                base = offset - distance
            elif kind == _REF_DELTA:
                base = raw[used : used + 20]
                used += 20
            elif kind not in KINDS:
                raise GitError(f"the server sent a pack with an unknown type of object: {kind}")
        except IndexError:
            raise GitError("the server sent a pack that ends too early") from None
        return _Entry(kind=kind, start=offset + used, size=size), base

    def _measure(self, offset: int, entry: _Entry, *, named: bool) -> int:
        """Inflate an entry to find its end, and its id if it is not a delta."""
        inflater = _Inflater(self._fd, entry)
        if not named:
            for _ in inflater:
                pass
            return inflater.end
        digest = _hasher(entry.kind, entry.size)
        for piece in inflater:
            digest.update(piece)
        entry.content_size, entry.oid = entry.size, digest.digest()
        self._offsets[entry.oid] = offset
        return inflater.end

    def _resolve(self, deltas: dict[int | bytes, list[int]]) -> None:
        """Name the deltas: from each base to all that build on it, depth first.

        A body is held only while deltas against it are still to come.
        """
        rank = count()
        for root in [offset for offset, entry in self._entries.items() if entry.oid]:
            self._entries[root].rank = next(rank)
            children = self._against(root, deltas)
            if not children:
                continue
            body = self._body(root)
            waiting = [(child, root, body) for child in children]
            while waiting:
                offset, base_offset, base = waiting.pop()
                result = self._name_delta(offset, base_offset, base)
                self._entries[offset].rank = next(rank)
                children = self._against(offset, deltas)
                waiting += [(child, offset, result) for child in children]
        if deltas:
            raise GitError("the server sent a pack whose deltas lack their base")

    def _against(self, offset: int, deltas: dict[int | bytes, list[int]]) -> list[int]:
        return deltas.pop(offset, []) + deltas.pop(self._entries[offset].oid, [])

    def _name_delta(self, offset: int, base_offset: int, base: Body) -> Body:
        entry = self._entries[offset]
        entry.kind, entry.base = self._entries[base_offset].kind, base_offset
        result = self._patched(entry, base)
        entry.content_size = delta.size(result)
        self._count(entry.content_size)
        entry.oid = _name(entry.kind, result)
        self._offsets[entry.oid] = offset
        return result

    def _count(self, size: int) -> None:
        self._inflated_bytes += size
        if self._inflated_bytes > self._limits.inflated_bytes:
            raise GitError(
                "the repository's objects have more than "
                f"the {self._limits.inflated_bytes} bytes allowed"
            )

    def _body(self, offset: int) -> Body:
        """Return an object's content: the nearest body at hand, and the deltas down from it."""
        chain = []
        body: Body | None = self._cache.get(offset)
        while body is None:
            entry = self._entries[offset]
            if entry.base is None:
                body = self._inflated(entry)
                self._remember(offset, body)
                break
            chain.append(offset)
            offset = entry.base
            body = self._cache.get(offset)
        for offset in reversed(chain):
            body = self._patched(self._entries[offset], body)
            self._remember(offset, body)
        return body

    def _patched(self, entry: _Entry, base: Body) -> Body:
        return delta.apply(
            base, self._inflated(entry), scratch=self._scratch, limit=self._limits.file_bytes
        )

    def _inflated(self, entry: _Entry) -> Body:
        return delta.body(self._inflate(entry), size=entry.size, scratch=self._scratch)

    def _inflate(self, entry: _Entry) -> Iterator[bytes]:
        return iter(_Inflater(self._fd, entry))

    def _remember(self, offset: int, body: Body) -> None:
        if not isinstance(body, bytes) or offset in self._cache:
            return
        self._cache[offset] = body
        self._cached += len(body)
        while self._cached > _CACHE:
            self._cached -= len(self._cache.popitem(last=False)[1])


class _Inflater:
    """The content of one entry in pieces; ``end`` is the offset behind it once it is read."""

    def __init__(self, fd: int, entry: _Entry) -> None:
        self._fd = fd
        self._entry = entry
        self.end = entry.start

    def __iter__(self) -> Iterator[bytes]:
        left = self._entry.size
        # Not more than a small object can need; zlib copies the bytes after it.
        step = min(_READ, left + (left >> 8) + 64)
        inflate = zlib.decompressobj()
        while not inflate.eof:
            data = inflate.unconsumed_tail
            if not data:
                data = os.pread(self._fd, step, self.end)
                self.end += len(data)
                if not data:
                    raise GitError("the server sent a pack that ends too early")
            piece = inflate.decompress(data, _INFLATE)
            left -= len(piece)
            if left < 0:
                break
            yield piece
        if left:
            raise GitError("the server sent a pack with an object of another size than announced")
        self.end -= len(inflate.unused_data)


def _kind_and_size(raw: bytes) -> tuple[int, int, int]:
    kind, size, shift, used = raw[0] >> 4 & 7, raw[0] & 15, 4, 1
    while raw[used - 1] & 0x80:
        size |= (raw[used] & 0x7F) << shift
        shift, used = shift + 7, used + 1
    return kind, size, used


def _distance(raw: bytes, used: int) -> tuple[int, int]:
    value = raw[used] & 0x7F
    while raw[used] & 0x80:
        used += 1
        value = (value + 1) << 7 | raw[used] & 0x7F
    return value, used + 1


def _hasher(kind: int, size: int) -> "hashlib._Hash":
    header = f"{KINDS[kind]} {size}\0".encode()
    return hashlib.sha1(header, usedforsecurity=False)


def _name(kind: int, body: Body) -> bytes:
    digest = _hasher(kind, delta.size(body))
    for piece in delta.chunks(body):
        digest.update(piece)
    return digest.digest()
