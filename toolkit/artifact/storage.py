"""The artifact store in a local directory; only the source component writes to it.

The layout is Flux's: ``<kind>/<namespace>/<name>/<file>``, a ``latest`` link beside the files, the
same path in URLs. Files are written atomically, and content that already exists is not written
again. Beside each file is its digest, so that every reader can check that the file is undamaged. A
restart loses nothing.
"""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Final, TypeAlias

from crds.meta import Artifact
from toolkit import disk
from toolkit.artifact import archive, directory, layout, retention, store, threads
from toolkit.artifact.about import About, Backend, Kept
from toolkit.artifact.archive import Packed
from toolkit.artifact.digest import ALGORITHMS, Digests
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.locks import Locks
from toolkit.artifact.room import UNLIMITED, Room
from toolkit.artifact.store import NO_METADATA, Owner, Readable, Store
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import StalledError, TransientError

__all__ = ["Owner", "Storage", "Store"]

REASON: Final = "ArchiveOperationFailed"

Write: TypeAlias = Callable[[IO[bytes], Checkpoint], Packed]
"""Writes an artifact to a file; blocks."""


class Storage:
    """``Store`` on a local directory. ``advertised`` is host and port of the URLs."""

    backend: Final[Backend] = "local"

    def __init__(
        self,
        root: Path,
        *,
        advertised: str,
        retention_ttl: float = 60.0,
        retention_records: int = 2,
        room: Room = UNLIMITED,
    ) -> None:
        self.root = root
        self._advertised = advertised
        self._retention_ttl = retention_ttl
        self._retention_records = retention_records
        self._room = room
        self._digests = Digests()
        self._owners = Locks()

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
            TransientError: the tree cannot be packed, or the disk is full or failed; earlier
                artifacts stay.
            QuotaError: the quota of the namespace would be exceeded; earlier artifacts stay.
        """

        def write(out: IO[bytes], checkpoint: Checkpoint) -> Packed:
            return archive.pack(tree, out, ignore, checkpoint=checkpoint)

        return await self._store(owner, filename, write, revision=revision, metadata=metadata)

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
            TransientError: it is not a regular file, too large, or the disk is full or failed; what
                was stored before is untouched.
        """

        def write(out: IO[bytes], checkpoint: Checkpoint) -> Packed:
            return archive.copy(file, out, checkpoint=checkpoint)

        return await self._store(owner, filename, write, revision=revision, metadata=metadata)

    async def _store(
        self,
        owner: Owner,
        filename: str,
        write: Write,
        *,
        revision: str,
        metadata: Mapping[str, str],
    ) -> Artifact:
        path = owner.file(filename)

        def work(checkpoint: Checkpoint) -> tuple[Packed, float]:
            packed, stored = self._write(path, write, checkpoint)
            told = About(digest=packed.digest, revision=revision, metadata=dict(metadata))
            directory.tell(self.root / path, told)
            return packed, stored

        with _storage_errors(self.root, path, doing="measure the store for"):
            await self._room.ready(self._sizes)
        async with self._owners.of(owner.path):
            with _storage_errors(self.root, path):
                packed, stored = await threads.run(work)
        return store.described(
            packed,
            path=path,
            revision=revision,
            url=self.url(path),
            stored=stored,
            metadata=metadata,
        )

    def url(self, path: str) -> str:
        """Return the address at which consumers fetch the artifact with this path."""
        return f"http://{self._advertised}/{path}"

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact exists and has its digest.

        The file is read once. Later the result is cached while its inode, size and times stay the
        same.
        """
        try:
            path = self.path(artifact)
            return await threads.run(
                lambda checkpoint: self._intact(path, artifact.digest, checkpoint)
            )
        except (OSError, StalledError):
            return False

    @asynccontextmanager
    async def local(self, artifact: Artifact) -> AsyncIterator[Path]:
        """Yield the artifact's file, which has its digest, for reading only.

        Raises:
            StalledError: the path could lead out of the root.
            TransientError: there is no such artifact, or it was deleted or replaced during the
                block.
        """
        path = self.path(artifact)
        if not await self.intact(artifact):
            raise TransientError(
                f"artifact '{artifact.path}' is not in the store any more", reason=REASON
            )
        before = await asyncio.to_thread(_identity, path)
        try:
            yield path
        except OSError as exc:
            if await asyncio.to_thread(_identity, path) == before:
                raise
            raise _replaced(artifact) from exc
        if await asyncio.to_thread(_identity, path) != before:
            raise _replaced(artifact)

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete artifacts past their retention, never ``current``; return their names.

        Raises:
            TransientError: the directory cannot be read, or a file not be deleted.
        """
        keep = Path(current.path).name if current else ""
        async with self._owners.of(owner.path):
            with _storage_errors(self.root, owner.path, doing="clean up"):
                return await asyncio.to_thread(self._collect, owner.path, keep)

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner.

        Raises:
            TransientError: the disk refused.
        """
        async with self._owners.of(owner.path):
            with _storage_errors(self.root, owner.path, doing="delete"):
                await asyncio.to_thread(self._remove, self.root / owner.path)
            self._room.freed(owner.path)

    async def charge(self, owner: Owner, namespace: str) -> None:
        """Count the owner's artifacts in the quota of a namespace from now on.

        Raises:
            StalledError: it cannot be the name of a namespace.
            TransientError: the disk refused.
        """
        here, account = owner.path, layout.require_name(namespace)
        if self._room.charged(here) == account:
            return
        with _storage_errors(self.root, here, doing="measure the store for"):
            await self._room.ready(self._sizes)
        async with self._owners.of(here):
            if self._room.charge(here, account):
                other = account if account != owner.namespace else ""
                with _storage_errors(self.root, here, doing="charge"):
                    await asyncio.to_thread(directory.mark, self.root / here, other)

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        """Return the bytes that owners of a kind hold, in one namespace or in all.

        Raises:
            TransientError: the disk refused.
        """
        with _storage_errors(self.root, kind, doing="measure"):
            return await asyncio.to_thread(self._usage, kind, namespace)

    async def kept(self, owner: Owner) -> tuple[Kept, ...]:
        """Return the owner's artifacts with a digest, the newest first.

        Raises:
            TransientError: the disk failed.
        """
        with _storage_errors(self.root, owner.path, doing="list"):
            return await asyncio.to_thread(self._kept, self.root / owner.path)

    async def open(self, path: str) -> Readable | None:
        """Open an artifact for reading; None if there is none with this path.

        The caller closes the file. A ``latest`` link is followed.
        """
        try:
            found = await self._open(path)
            if found.intact:
                return found
            # It may be about to be replaced: look again when there is no writer.
            found.file.close()
            async with self._owners.of(path.rpartition("/")[0]):
                return await self._open(path)
        except (OSError, StalledError):
            return None

    async def _open(self, path: str) -> Readable:
        name = await asyncio.to_thread(self._locate, layout.require_path(path))
        file = await asyncio.to_thread(name.open, "rb", buffering=0)
        with contextlib.ExitStack() as stack:
            stack.callback(file.close)
            expected = await asyncio.to_thread(directory.recorded, name)
            algorithm = expected.partition(":")[0] or ALGORITHMS[0]
            actual = await self._digests.of_open(name, file, algorithm)
            status = os.fstat(file.fileno())
            stack.pop_all()
        return Readable(
            name=name.name,
            file=file,
            size=status.st_size,
            modified=status.st_mtime,
            digest=actual,
            intact=actual == expected,
        )

    def path(self, artifact: Artifact) -> Path:
        """Return the artifact's file.

        Raises:
            StalledError: the path could lead out of the root.
        """
        return self.root / layout.require_path(artifact.path)

    def _intact(self, path: Path, digest: str, checkpoint: Checkpoint) -> bool:
        if not self._holds(path, digest, checkpoint):
            return False
        # A store that was taken over from Flux has no digest files. If the disk is full, writing
        # them can wait.
        with contextlib.suppress(OSError):
            directory.vouch(path, digest)
        return True

    def _write(self, path: str, write: Write, checkpoint: Checkpoint) -> tuple[Packed, float]:
        """Return digest and size of the written file, and the time at which it was stored."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with directory.unfinished(target.parent) as (temporary, file):
            packed = write(file, checkpoint)
            file.flush()
            if not self._holds(target, packed.digest, checkpoint):
                with self._room.taken(path, packed.size):
                    os.fsync(file.fileno())
                    temporary.replace(target)
                directory.sync(target.parent)
                self._holds(target, packed.digest, checkpoint)
        directory.vouch(target, packed.digest)
        directory.link(target)
        return packed, target.stat().st_mtime

    def _holds(self, target: Path, digest: str, checkpoint: Checkpoint) -> bool:
        algorithm = digest.partition(":")[0]
        try:
            with target.open("rb", buffering=0) as file:
                return (
                    algorithm in ALGORITHMS
                    and self._digests.measure(target, file, algorithm, checkpoint) == digest
                )
        except FileNotFoundError:
            return False

    def _collect(self, here: str, keep: str) -> tuple[str, ...]:
        place = self.root / here
        files, unfinished = directory.listed(place)
        now = time.time()
        names = retention.expired(
            files, current=keep, now=now, ttl=self._retention_ttl, records=self._retention_records
        )
        for name in names:
            for prefix in (layout.DIGEST, layout.ABOUT):
                (place / f"{prefix}{name}").unlink(missing_ok=True)
            (place / name).unlink(missing_ok=True)
            self._room.freed(f"{here}/{name}")
            self._digests.forget(place / name)
        # Unfinished files of a killed process; we hold the lock of the owner, so they are not ours.
        for file in unfinished:
            if now - file.modified > self._retention_ttl:
                (place / file.name).unlink(missing_ok=True)
        return names

    def _remove(self, place: Path) -> None:
        for file in directory.listed(place)[0]:
            self._digests.forget(place / file.name)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)

    def _usage(self, kind: str, namespace: str) -> dict[Owner, int]:
        start = self.root / kind.lower() / namespace
        used = {}
        for place in directory.below(start, 1 if namespace else 2):
            owner = Owner(kind=kind, namespace=place.parent.name, name=place.name)
            used[owner] = sum(file.size for file in directory.listed(place)[0])
        return used

    def _kept(self, place: Path) -> tuple[Kept, ...]:
        files = directory.listed(place)[0]
        digests = {file.name: directory.recorded(place / file.name) for file in files}
        return store.kept(
            [file for file in files if digests[file.name]],
            abouts={
                name: directory.told(place / name, digest)
                for name, digest in digests.items()
                if digest
            },
            ttl=self._retention_ttl,
            records=self._retention_records,
        )

    async def _sizes(self) -> Mapping[str, int]:
        return await asyncio.to_thread(self._all_sizes)

    def _all_sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind in directory.below(self.root, 1):
            # Directories of the file system itself, such as lost+found, cannot be read.
            with contextlib.suppress(PermissionError):
                for place in directory.below(kind, 2):
                    here = place.relative_to(self.root).as_posix()
                    files = directory.listed(place)[0]
                    found.update((f"{here}/{file.name}", file.size) for file in files)
                    found.update((f"{here}/{name}", 0) for name in directory.marked(place))
        return found

    def _locate(self, path: str) -> Path:
        """Return the file behind a path; a link may only name a neighbour."""
        name = self.root / path
        if name.is_symlink():
            name = name.parent / layout.require_name(str(name.readlink()))
        root = self.root.resolve()
        if name.parent.resolve() != root / path.rpartition("/")[0] or name.is_symlink():
            raise StalledError(f"'{path}' points outside the store")
        if not name.is_file():
            raise FileNotFoundError(path)
        return name


@contextmanager
def _storage_errors(root: Path, path: str, *, doing: str = "store") -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        why = disk.why(exc, root, flag="--storage-path")
        message = f"cannot {doing} artifact '{path}': {why}"
        raise TransientError(message, reason=REASON) from exc


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _replaced(artifact: Artifact) -> TransientError:
    return TransientError(
        f"artifact '{artifact.path}' was deleted or replaced while it was read", reason=REASON
    )
