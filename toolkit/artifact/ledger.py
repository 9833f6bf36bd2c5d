"""The records of the objects in a bucket: which of them are valid artifacts.

A bucket cannot tell the digest of an object. So beside each artifact is its *record*,
``.digest-<file>``: the digest, and size and entity tag of exactly the object that it describes. A
record that describes another object, left by a writer that was killed or overtaken, is invalid.
``.about-<file>`` contains revision and metadata. ``.link-<name>`` contains the name that a
``latest`` link points to.

A record is remembered under the entity tag, so that one HEAD is enough from then on.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from toolkit import untrusted
from toolkit.artifact import about, layout, spool
from toolkit.artifact.about import About
from toolkit.artifact.digest import ALGORITHMS
from toolkit.errors import StalledError
from toolkit.remote.objectstore.objectstore import Object, ObjectChangedError, ObjectNotFoundError

T = TypeVar("T")


class Objects(Protocol):
    """A bucket, as ``toolkit.remote.objectstore.objectstore.ObjectStore`` reaches it."""

    def list(self, prefix: str = "") -> AsyncIterator[Object]:
        """Yield the objects whose key starts with ``prefix``."""
        ...

    async def head(self, key: str) -> Object:
        """Return size and entity tag of an object. Raises ``ObjectNotFoundError``."""
        ...

    async def read(self, key: str, into: Path, *, limit: int, expect: Object | None = None) -> int:
        """Write the content, of the expected object if one is given, into a new file.

        Raises ``ObjectNotFoundError``, ``ObjectChangedError``.
        """
        ...

    async def write(self, key: str, path: Path) -> Object:
        """Write a file's content as an object, which appears whole or not at all."""
        ...

    async def write_bytes(self, key: str, data: bytes) -> Object:
        """Do the same with bytes."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; missing objects are no error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An artifact in the bucket.

    ``digest`` is the recorded digest of exactly this object, empty without a valid record.
    ``claimed`` is the digest in the record, even if the record is of another object.
    """

    object: Object
    digest: str
    claimed: str


_SMALL: Final = 4096


class Ledger:
    """Looks at artifacts below ``prefix``. Every method raises ``ObjectStoreError``."""

    def __init__(
        self,
        objects: Objects,
        *,
        prefix: str,
        scratch: Path,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._prefix = prefix
        self._scratch = scratch
        self._now = now
        self._known: OrderedDict[str, _Record] = OrderedDict()
        self._distrusted: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._links: dict[str, str] = {}
        self._told: OrderedDict[str, About] = OrderedDict()

    def key(self, path: str) -> str:
        """Return the key of the object for a path."""
        return f"{self._prefix}{path}"

    async def below(self, start: str) -> list[Object]:
        """Return the objects whose path begins with ``start``, their keys as paths."""
        return [
            replace(found, key=found.key.removeprefix(self._prefix))
            async for found in self._objects.list(self.key(start))
        ]

    async def find(self, path: str) -> Found | None:
        """Return an artifact with its record; None if there is no artifact."""
        found = await self.head(path)
        if found is None:
            return None
        known = self._known.get(path)
        if known and known.speaks_of(found):
            return Found(object=found, digest=known.digest, claimed=known.digest)
        if self._is_distrusted(path, found):
            return Found(object=found, digest="", claimed="")
        record = await self._record(path)
        if record is None:
            return Found(object=found, digest="", claimed="")
        if not record.speaks_of(found):
            return Found(object=found, digest="", claimed=record.digest)
        self._remember(path, record)
        return Found(object=found, digest=record.digest, claimed=record.digest)

    async def head(self, path: str) -> Object | None:
        """Return an artifact without its record; None if there is no artifact."""
        try:
            return await self._objects.head(self.key(path))
        except ObjectNotFoundError:
            self._known.pop(path, None)
            return None

    async def vouch(self, path: str, found: Object, digest: str) -> None:
        """Write down that this object has this digest."""
        record = _Record(digest=digest, size=found.size, etag=found.etag)
        await self._objects.write_bytes(
            self.key(_beside(path, layout.DIGEST)), msgspec.json.encode(record)
        )
        self._remember(path, record)

    async def tell(self, path: str, told: About) -> None:
        """Write down revision and metadata of an artifact."""
        if self._told.get(path) != told:
            beside = self.key(_beside(path, layout.ABOUT))
            await self._objects.write_bytes(beside, told.encoded())
            self._told[path] = told
            _bound(self._told, path, _TOLD)

    async def told(self, path: str, digest: str) -> About:
        """Return the recorded revision and metadata of an artifact with this digest."""
        known = self._told.get(path)
        if known is None or known.digest != digest:
            data = await self._small(_beside(path, layout.ABOUT), limit=about.LIMIT)
            known = self._told[path] = about.read(data, digest)
            _bound(self._told, path, _TOLD)
        return known

    def believe(self, path: str, found: Object, digest: str) -> None:
        """Cache a digest that was read or computed."""
        self._remember(path, _Record(digest=digest, size=found.size, etag=found.etag))

    def distrust(self, path: str, found: Object) -> None:
        """Remember for a minute that an object does not have the digest of its record."""
        self._known.pop(path, None)
        self._distrusted[path] = found.etag, self._now() + _DISTRUST_SECONDS
        _bound(self._distrusted, path)

    async def link(self, path: str) -> None:
        """Point ``latest`` at an artifact."""
        directory, _, name = path.rpartition("/")
        link = f"{directory}/{layout.LINK}{layout.latest(name)}"
        if self._links.get(link) != name:
            await self._objects.write_bytes(self.key(link), name.encode())
            self._links[link] = name

    async def follow(self, path: str) -> str:
        """Return the target of a link; another path as it is; empty if there is none."""
        directory, _, name = path.rpartition("/")
        if not layout.is_link(name):
            return path
        content = await self._small(f"{directory}/{layout.LINK}{name}")
        try:
            return f"{directory}/{layout.require_filename(content.decode())}"
        except (StalledError, UnicodeDecodeError):
            return ""

    async def mark(self, owner: str, namespace: str) -> None:
        """Write the object that tells who is charged, or none if ``namespace`` is empty."""
        wanted = f"{owner}/{layout.CHARGED}{namespace}" if namespace else ""
        if wanted:
            await self._objects.write_bytes(self.key(wanted), b"")
        marked = await self.below(f"{owner}/{layout.CHARGED}")
        await self.delete(found.key for found in marked if found.key != wanted)

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete the objects at these paths, and their cached records."""
        gone = tuple(paths)
        await self._objects.delete([self.key(path) for path in gone])
        for path in gone:
            for memory in (self._known, self._links, self._told):
                memory.pop(path, None)

    async def _record(self, path: str) -> "_Record | None":
        try:
            text = await self._small(_beside(path, layout.DIGEST))
            record = untrusted.load_json(text, _Record, size=_SMALL)
        except untrusted.UntrustedError:
            return None
        return record if record.digest.partition(":")[0] in ALGORITHMS else None

    async def _small(self, path: str, *, limit: int = _SMALL) -> bytes:
        """Return the content of a small object; empty if there is none."""
        async with spool.directory(self._scratch) as directory:
            file = directory / "object"
            try:
                await self._objects.read(self.key(path), file, limit=limit)
            except (ObjectNotFoundError, ObjectChangedError):
                return b""
            return file.read_bytes()

    def _is_distrusted(self, path: str, found: Object) -> bool:
        etag, until = self._distrusted.get(path, ("", 0.0))
        return etag == found.etag and self._now() < until

    def _remember(self, path: str, record: "_Record") -> None:
        self._distrusted.pop(path, None)
        self._known[path] = record
        _bound(self._known, path)


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    size: int
    etag: str

    def speaks_of(self, found: Object) -> bool:
        return (self.etag, self.size) == (found.etag, found.size)


_REMEMBERED: Final = 16_384
_TOLD: Final = 2048
_DISTRUST_SECONDS: Final = 60.0


def _beside(path: str, prefix: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/{prefix}{name}"


def _bound(memory: OrderedDict[str, T], newest: str, most: int = _REMEMBERED) -> None:
    memory.move_to_end(newest)
    while len(memory) > most:
        memory.popitem(last=False)
