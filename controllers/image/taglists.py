"""The tags of each ImageRepository as they were scanned last, in the artifact store.

After a restart they are read from there instead of scanned again. A list must have the revision in
the object's status: one of another scan, or one that was changed, is ignored.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec

from crds import IMAGE_REPOSITORY
from crds.image import ImageRepository
from toolkit import untrusted
from toolkit.artifact import spool
from toolkit.artifact.store import Owner, Store
from toolkit.errors import PenstockError

_MOST_CACHED: Final = 1_000_000
"""Tags that are held in memory, of all repositories together."""
_LONGEST: Final = 32 << 20


class TagList(msgspec.Struct, frozen=True):
    """Tags in descending order, with the entity tag of the registry's list.

    ``known`` is that entity tag, for a conditional request; it is empty if the registry returns
    none.
    """

    tags: tuple[str, ...]
    known: str = ""

    @property
    def revision(self) -> str:
        """Return the digest over the tags."""
        return revision(self.tags)


def revision(tags: Iterable[str]) -> str:
    """Return the digest over tags in this order."""
    return f"sha256:{hashlib.sha256(chr(10).join(tags).encode()).hexdigest()}"


class TagLists:
    """Reads and writes the lists; ``scratch`` is a directory for incomplete files."""

    def __init__(self, store: Store, *, scratch: Path) -> None:
        self._store = store
        self._scratch = scratch
        self._cached: OrderedDict[Owner, tuple[str, TagList]] = OrderedDict()
        self._held = 0

    async def read(self, obj: ImageRepository) -> TagList | None:
        """Return the tags of the last scan; ``None`` if there are none, or they are damaged."""
        result = obj.status.last_scan_result
        if result is None or not result.revision:
            return None
        owner = _owner(obj)
        cached = self._cached.get(owner)
        if cached is not None and cached[0] == result.revision:
            self._cached.move_to_end(owner)
            return cached[1]
        found = await self._stored(owner, result.revision)
        if found is not None:
            self._hold(owner, result.revision, found)
        return found

    async def write(self, obj: ImageRepository, found: TagList) -> str:
        """Keep the tags of a scan, and return their revision; older lists of the object go.

        Raises:
            TransientError: the store failed.
        """
        owner = _owner(obj)
        digest = await asyncio.to_thread(lambda: found.revision)
        async with spool.directory(self._scratch) as directory:
            file = directory / "tags.json"
            await asyncio.to_thread(file.write_bytes, msgspec.json.encode(found))
            artifact = await self._store.store_file(
                owner, revision=digest, filename=_filename(digest), file=file
            )
        await self._store.collect(owner, current=artifact)
        self._hold(owner, digest, found)
        return digest

    async def remove(self, namespace: str, name: str) -> None:
        """Delete the list of an object."""
        owner = Owner(kind=IMAGE_REPOSITORY.kind, namespace=namespace, name=name)
        self._drop(owner)
        await self._store.remove(owner)

    async def _stored(self, owner: Owner, digest: str) -> TagList | None:
        try:
            opened = await self._store.open(owner.file(_filename(digest)))
        except PenstockError:
            return None  # it is scanned again
        if opened is None:
            return None
        return await asyncio.to_thread(_decoded, opened.file, digest)

    def _hold(self, owner: Owner, digest: str, found: TagList) -> None:
        self._drop(owner)
        self._cached[owner] = (digest, found)
        self._held += len(found.tags)
        while self._held > _MOST_CACHED and len(self._cached) > 1:
            self._drop(next(iter(self._cached)))

    def _drop(self, owner: Owner) -> None:
        cached = self._cached.pop(owner, None)
        if cached is not None:
            self._held -= len(cached[1].tags)


def _owner(obj: ImageRepository) -> Owner:
    meta = obj.metadata
    return Owner(kind=IMAGE_REPOSITORY.kind, namespace=meta.namespace, name=meta.name)


def _filename(digest: str) -> str:
    return f"tags-{digest.partition(':')[2]}.json"


def _decoded(file: FileIO, digest: str) -> TagList | None:
    with file:
        data = file.read(_LONGEST + 1)
    try:
        found = untrusted.load_json(data, TagList, size=_LONGEST)
    except untrusted.UntrustedError:
        return None
    return found if found.revision == digest else None
