"""The artifact store in a bucket: every replica serves it, and a new pod finds everything there.

The layout is that of the local directory, a file is one object, and ``ledger`` records the digest
of each. A writer may die at any moment, and two may write at once: an object without a valid record
is built again, and no client gets content that does not have its digest.

Nothing is listed while nothing changes: ``intact`` is one HEAD, and the end of a retention is known
from the last time that anything was stored. Content is read through a cache on the local disk, by
digest, which may vanish with the pod.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path
from typing import Final, TypeAlias

from crds.meta import Artifact
from toolkit import disk
from toolkit.artifact import archive, digest, layout, limits, retention, spool, store, threads
from toolkit.artifact.about import About, Backend, Kept
from toolkit.artifact.archive import Packed
from toolkit.artifact.cache import CONTENT, Cache
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.ledger import Found, Ledger, Objects
from toolkit.artifact.locks import Locks
from toolkit.artifact.retention import Stored
from toolkit.artifact.room import UNLIMITED, Room
from toolkit.artifact.store import NO_METADATA, Owner, Readable
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import StalledError, TransientError
from toolkit.remote.objectstore.objectstore import Object, ObjectChangedError, ObjectStoreError

logger = logging.getLogger(__name__)

REASON: Final = "StorageOperationFailed"

Write: TypeAlias = Callable[[Checkpoint], Packed]
"""Finishes the file that is to be stored; blocks."""


class BucketStorage:
    """``Store`` in a bucket, below ``prefix`` (empty, or ending in a slash).

    ``quick`` and ``bulk`` access the same bucket; requests of ``quick`` are small and have a short
    deadline. ``scratch`` has temporary files, ``cache`` has artifacts that were read.
    ``advertised`` is host and port of the URLs.
    """

    backend: Final[Backend] = "bucket"

    def __init__(  # noqa: PLR0913  # its neighbours, and settings with defaults
        self,
        *,
        quick: Objects,
        bulk: Objects,
        prefix: str,
        scratch: Path,
        cache: Cache,
        advertised: str,
        retention_ttl: float = 60.0,
        retention_records: int = 2,
        room: Room = UNLIMITED,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = Ledger(quick, prefix=prefix, scratch=scratch)
        self._bulk = bulk
        self._scratch = scratch
        self._cache = cache
        self._advertised = advertised
        self._retention_ttl = retention_ttl
        self._retention_records = retention_records
        self._room = room
        self._now = now
        self._owners = Locks()
        self._due: dict[str, float] = {}
        self._downloads = asyncio.Semaphore(_DOWNLOADS)

    async def store(  # noqa: PLR0913  # the fields of an artifact
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        tree: Path,
        ignore: Ignore,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Artifact:
        """Pack ``tree`` and store it as the owner's newest artifact.

        Raises:
            StalledError: a name cannot be part of a path.
            TransientError: the tree cannot be packed, the local disk is full, or the bucket refused
                a write; earlier artifacts stay.
            QuotaError: the quota of the namespace would be exceeded; earlier artifacts stay.
        """
        path = owner.file(filename)
        async with self._owners.of(owner.path), spool.directory(self._scratch) as directory:
            file = directory / CONTENT

            def write(checkpoint: Checkpoint) -> Packed:
                with file.open("xb") as out:
                    return archive.pack(tree, out, ignore, checkpoint=checkpoint)

            return await self._publish(path, file, write, revision=revision, metadata=metadata)

    async def store_file(
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        file: Path,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Artifact:
        """Keep a copy of ``file``, byte for byte, as the owner's newest artifact.

        Raises:
            StalledError: a name cannot be part of a path.
            TransientError: it is not a regular file or too large, or the bucket refused it; what
                was stored before is untouched.
        """
        path = owner.file(filename)

        def write(checkpoint: Checkpoint) -> Packed:
            with Path(os.devnull).open("wb") as out:
                return archive.copy(file, out, checkpoint=checkpoint)

        async with self._owners.of(owner.path):
            return await self._publish(path, file, write, revision=revision, metadata=metadata)

    @asynccontextmanager
    async def local(self, artifact: Artifact) -> AsyncIterator[Path]:
        """Yield the artifact as a local file, for reading only.

        Raises:
            StalledError: the path is not valid in a store.
            TransientError: there is no such artifact, its digest differs, or the bucket does not
                answer.
        """
        path = layout.require_path(artifact.path)

        async def produce(directory: Path) -> int:
            found = await self._ledger.find(path)
            if found is None:
                raise TransientError(
                    f"artifact '{path}' is not in the store any more", reason=REASON
                )
            return await self._read(path, found.object, artifact.digest, directory)

        async with AsyncExitStack() as stack:
            with _errors(path):
                # By its place too: a digest is not a secret, and must not open a neighbour's.
                use = self._cache.use(f"{path} {artifact.digest}", produce)
                extracted = await stack.enter_async_context(use)
            yield extracted.path

    def url(self, path: str) -> str:
        """Return the address at which consumers fetch the artifact with this path."""
        return f"http://{self._advertised}/{path}"

    async def open(self, path: str) -> Readable | None:
        """Open an artifact, or the target of a ``latest`` link; None if there is none.

        The caller closes the file.

        Raises:
            TransientError: the bucket does not answer, or the local disk is full.
        """
        try:
            asked = layout.require_path(path)
        except StalledError:
            return None
        with _errors(asked):
            for pause in _LOOKS:
                await asyncio.sleep(pause)
                # A writer may be between object and record, or replace it under our hands.
                with contextlib.suppress(ObjectChangedError):
                    path = await self._ledger.follow(asked)
                    found = await self._ledger.find(path) if path else None
                    if found is None or not found.claimed:
                        return None
                    if found.digest or pause == _LOOKS[-1]:
                        return await self._readable(path, found)
        raise TransientError(f"artifact '{asked}' is being replaced", reason=REASON)

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact exists and has its digest; this usually costs one HEAD.

        Raises:
            TransientError: the bucket does not answer; that is no reason to fetch the source again.
        """
        try:
            path = layout.require_path(artifact.path)
        except StalledError:
            return False
        with _errors(path, doing="look for"):
            found = await self._ledger.find(path)
            if found is None or found.object.size != (artifact.size or found.object.size):
                return False
            if found.digest:
                return found.digest == artifact.digest
            # There is no valid record: a writer was killed, or the bucket is a copy of another.
            if not await self._holds(path, found.object, artifact.digest):
                return False
            await self._ledger.vouch(path, found.object, artifact.digest)
            return True

    async def kept(self, owner: Owner) -> tuple[Kept, ...]:
        """Return the owner's artifacts with a digest, the newest first.

        Raises:
            TransientError: the bucket does not answer.
        """
        here = owner.path
        with _errors(here, doing="list"):
            now = self._now()
            listed = await self._ledger.below(f"{here}/")
            files = [_stored(found, here, now) for found in listed]
            artifacts = [file for file in files if not file.name.startswith(".")]
            abouts = {}
            for file in artifacts:
                found = await self._ledger.find(f"{here}/{file.name}")
                if found is not None and found.digest:
                    abouts[file.name] = await self._ledger.told(f"{here}/{file.name}", found.digest)
        ttl, records = self._retention_ttl, self._retention_records
        return store.kept(artifacts, abouts=abouts, ttl=ttl, records=records)

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete expired artifacts, never ``current``; return their names.

        No request is sent before an artifact can have expired.

        Raises:
            TransientError: the bucket does not answer.
        """
        here = owner.path
        if self._now() < self._due.get(here, 0.0):
            return ()
        keep = Path(current.path).name if current else ""
        async with self._owners.of(here):
            with _errors(here, doing="clean up"):
                return await self._collect(here, keep)

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner.

        Raises:
            TransientError: the bucket does not answer.
        """
        here = owner.path
        async with self._owners.of(here):
            with _errors(here, doing="delete"):
                await self._ledger.delete(
                    [found.key for found in await self._ledger.below(f"{here}/")]
                )
            self._room.freed(here)
            self._due.pop(here, None)

    async def charge(self, owner: Owner, namespace: str) -> None:
        """Count the owner's artifacts in the quota of a namespace from now on.

        Raises:
            StalledError: it cannot be the name of a namespace.
            TransientError: the bucket does not answer.
        """
        here, account = owner.path, layout.require_name(namespace)
        if self._room.charged(here) == account:
            return
        with _errors(here, doing="charge"):
            await self._room.ready(self._sizes)
            async with self._owners.of(here):
                if self._room.charge(here, account):
                    other = account if account != owner.namespace else ""
                    await self._ledger.mark(here, other)

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        """Return the bytes that owners of a kind hold, in one namespace or in all.

        Raises:
            TransientError: the bucket does not answer.
        """
        start = "/".join(filter(None, (kind.lower(), namespace))) + "/"
        used: defaultdict[Owner, int] = defaultdict(int)
        with _errors(start, doing="measure"):
            for path, size in (await self._sizes(start)).items():
                _, its_namespace, name, _ = path.split("/")
                used[Owner(kind=kind, namespace=its_namespace, name=name)] += size
        return dict(used)

    async def _sizes(self, start: str = "") -> Mapping[str, int]:
        """Return the sizes of the artifacts whose path begins with ``start``."""
        return {
            found.key: found.size
            for found in await self._ledger.below(start)
            if found.key.count("/") == _SLASHES
            and ("/." not in found.key or f"/{layout.CHARGED}" in found.key)
        }

    async def _publish(
        self, path: str, file: Path, write: Write, *, revision: str, metadata: Mapping[str, str]
    ) -> Artifact:
        """Finish ``file`` and make it the artifact at ``path``, unless it is that already."""
        with _errors(path, doing="store"):
            await self._room.ready(self._sizes)
            packed = await threads.run(write)
            known = await self._ledger.find(path)
            same = known is not None and known.digest == packed.digest
            found = known.object if known and same else await self._upload(path, file, packed)
            told = About(digest=packed.digest, revision=revision, metadata=dict(metadata))
            await self._ledger.tell(path, told)
            await self._ledger.link(path)
        self._due.pop(path.rpartition("/")[0], None)
        return store.described(
            packed,
            path=path,
            revision=revision,
            url=self.url(path),
            stored=found.modified.timestamp() if found.modified else self._now(),
            metadata=metadata,
        )

    async def _upload(self, path: str, file: Path, packed: Packed) -> Object:
        with self._room.taken(path, packed.size):
            written = await self._bulk.write(self._ledger.key(path), file)
        found = await self._ledger.head(path)
        ours = found is not None and (written.etag or found.etag) == found.etag
        # Another writer may have replaced the object, so record only a digest that is known or
        # read.
        if found is None or not (ours or await self._holds(path, found, packed.digest)):
            raise TransientError(
                f"artifact '{path}' was replaced while it was stored: is another source "
                "controller at work on the same bucket?",
                reason=REASON,
            )
        await self._ledger.vouch(path, found, packed.digest)
        return found

    async def _holds(self, path: str, found: Object, wanted: str) -> bool:
        """Read an object to tell whether it has a digest."""
        async with spool.directory(self._scratch) as directory:
            try:
                await self._read(path, found, wanted, directory)
            except (ObjectChangedError, _OtherContentError):
                return False
        return True

    async def _readable(self, path: str, found: Found) -> Readable | None:
        """Open the content of an object if it has the claimed digest.

        Raises:
            ObjectChangedError: the object has changed.
        """

        async def produce(directory: Path) -> int:
            return await self._read(path, found.object, found.claimed, directory)

        # The cached file may come from another object with the same content.
        key = found.digest or f"{found.claimed} {found.object.etag}"
        try:
            async with self._cache.use(key, produce) as extracted:
                # It can go from the cache, and stays readable.
                file = await asyncio.to_thread(FileIO, extracted.path)
        except _OtherContentError:
            await self._discard(path, found)
            return None
        self._ledger.believe(path, found.object, found.claimed)
        modified = found.object.modified
        return Readable(
            name=path.rpartition("/")[2],
            file=file,
            size=found.object.size,
            modified=modified.timestamp() if modified else 0.0,
            digest=found.claimed,
            intact=True,
        )

    async def _discard(self, path: str, found: Found) -> None:
        """Delete an object that is damaged although its record describes it.

        Otherwise the leader, which only sends a HEAD, would accept it forever. If the object was
        repaired meanwhile, it is built once more than necessary.
        """
        self._ledger.distrust(path, found.object)
        if found.digest and not await self._holds(path, found.object, found.digest):
            await self._ledger.delete([path])
            self._room.freed(path)
        logger.error("artifact is damaged", extra={"file": path})

    async def _read(self, path: str, found: Object, wanted: str, directory: Path) -> int:
        """Bring an object to ``directory`` and require its digest; return its size."""
        file = directory / CONTENT
        async with self._downloads:
            size = await self._bulk.read(
                self._ledger.key(path), file, limit=limits.PACKED, expect=found
            )
        algorithm = wanted.partition(":")[0]
        known = algorithm in digest.ALGORITHMS
        if not known or wanted != await threads.run(
            lambda checkpoint: digest.of_file(file, algorithm, checkpoint)
        ):
            raise _OtherContentError(
                f"artifact '{path}' in the bucket is not what was stored", reason=REASON
            )
        return size

    async def _collect(self, here: str, keep: str) -> tuple[str, ...]:
        listed = await self._ledger.below(f"{here}/")
        now = self._now()
        files = [_stored(found, here, now) for found in listed]
        artifacts = [file for file in files if not file.name.startswith(".")]
        ttl, records = self._retention_ttl, self._retention_records
        names = retention.expired(artifacts, current=keep, now=now, ttl=ttl, records=records)
        left = [file for file in artifacts if file.name not in names]
        stale = _stale_records(files, left, before=now - ttl)
        # Delete the file first: a record without its file is invalid.
        await self._ledger.delete(f"{here}/{name}" for name in names)
        self._room.freed(*(f"{here}/{name}" for name in names))
        await self._ledger.delete(f"{here}/{name}" for name in stale)
        self._due[here] = retention.next_expiry(left, current=keep, ttl=ttl, records=records)
        return names


_LOOKS: Final = (0.0, 0.2, 0.8)
"""Seconds before each look at an object without a record."""
_SLASHES: Final = 3
_DOWNLOADS: Final = 8
"""Limit for concurrent downloads, because their files are not limited otherwise."""


class _OtherContentError(TransientError):
    """An object does not have the digest of its record, or of the caller."""


def _stored(found: Object, here: str, now: float) -> Stored:
    return Stored(
        name=found.key.removeprefix(f"{here}/"),
        modified=found.modified.timestamp() if found.modified else now,
        size=found.size,
    )


def _stale_records(files: list[Stored], left: list[Stored], *, before: float) -> list[str]:
    """Return the records and links whose file is gone for some time, or is going."""
    names = {file.name for file in left}
    links = {layout.latest(name) for name in names}
    beside = {
        *(f"{prefix}{name}" for prefix in (layout.DIGEST, layout.ABOUT) for name in names),
        *(f"{layout.LINK}{link}" for link in links),
    }
    return [
        file.name
        for file in files
        if file.name.startswith((layout.DIGEST, layout.ABOUT, layout.LINK))
        and file.name not in beside
        and file.modified < before
    ]


@contextmanager
def _errors(path: str, *, doing: str = "read") -> Iterator[None]:
    try:
        yield
    except ObjectStoreError as exc:
        raise TransientError(
            f"cannot {doing} artifact '{path}': {exc}; check --storage-backend, its credentials, "
            "and that the bucket can be reached from here",
            reason=REASON,
        ) from exc
    except OSError as exc:
        why = disk.why(exc, exc.filename or "the local disk", flag="--storage-path")
        raise TransientError(
            f"cannot {doing} artifact '{path}' on the local disk: {why}",
            reason=REASON,
        ) from exc
