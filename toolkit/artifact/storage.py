"""The artifact store on a local directory: written by the source component alone.

The layout is Flux's: ``<kind>/<namespace>/<name>/<file>``, a ``latest`` link beside the files, the
same path behind the advertised address. A file appears whole or not at all, and content that is
already there is not written again. Beside each file lies its digest, so that whoever reads it can
tell whether it is what was stored. Nothing is kept in memory that a restart could lose.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, Protocol

from crds.meta import Artifact
from toolkit.artifact import archive, layout, retention, threads
from toolkit.artifact.archive import Packed
from toolkit.artifact.digest import ALGORITHMS, Digests
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.locks import Locks
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import StalledError, TransientError

REASON: Final = "ArchiveOperationFailed"
_NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The source object that artifacts belong to."""

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the owner's directory below the root.

        Raises:
            StalledError: a part could lead out of the root.
        """
        parts = (self.kind.lower(), self.namespace, self.name)
        return "/".join(layout.require_name(part) for part in parts)


class Store(Protocol):
    """Where artifacts live; what a source reconciler needs of any backend."""

    async def store(  # noqa: PLR0913  # what an artifact is
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        tree: Path,
        ignore: Ignore,
        metadata: Mapping[str, str] = _NO_METADATA,
    ) -> Artifact:
        """Pack ``tree`` and keep it as the owner's newest artifact."""
        ...

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact is there and has its digest."""
        ...

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete artifacts past their retention, never ``current``; return their names."""
        ...

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner."""
        ...


class Storage:
    """``Store`` on a local directory. ``advertised`` is host and port of the URLs."""

    def __init__(
        self,
        root: Path,
        *,
        advertised: str,
        retention_ttl: float = 60.0,
        retention_records: int = 2,
    ) -> None:
        self.root = root
        self._advertised = advertised
        self._retention_ttl = retention_ttl
        self._retention_records = retention_records
        self._digests = Digests()
        self._owners = Locks()

    async def store(  # noqa: PLR0913  # what an artifact is
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        tree: Path,
        ignore: Ignore,
        metadata: Mapping[str, str] = _NO_METADATA,
    ) -> Artifact:
        """Pack ``tree`` and keep it as the owner's newest artifact.

        Raises:
            StalledError: a name cannot be part of a path.
            TransientError: the tree cannot be packed, or the disk is full or failed; what was
                stored before is untouched.
        """
        path = f"{owner.path}/{layout.require_name(filename)}"
        async with self._owners.of(owner.path):
            with _storage_errors(path):
                packed, stored = await threads.run(
                    lambda checkpoint: self._write(self.root / path, tree, ignore, checkpoint)
                )
        return Artifact(
            digest=packed.digest,
            last_update_time=datetime.fromtimestamp(stored, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            path=path,
            revision=revision,
            url=self.url(path),
            size=packed.size,
            metadata=dict(metadata),
        )

    def url(self, path: str) -> str:
        """Return the address at which consumers fetch the artifact with this path."""
        return f"http://{self._advertised}/{path}"

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact is there and has its digest.

        The file is read once; after that it is as long as its inode, size and times stay.
        """
        try:
            path = self.path(artifact)
            return await threads.run(
                lambda checkpoint: self._intact(path, artifact.digest, checkpoint)
            )
        except (OSError, StalledError):
            return False

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete artifacts past their retention, never ``current``; return their names.

        Raises:
            TransientError: the directory cannot be read, or a file not be deleted.
        """
        keep = Path(current.path).name if current else ""
        async with self._owners.of(owner.path):
            with _storage_errors(owner.path, doing="clean up"):
                return await asyncio.to_thread(self._collect, self.root / owner.path, keep)

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner.

        Raises:
            TransientError: the disk refused.
        """
        directory = self.root / owner.path
        async with self._owners.of(owner.path):
            with _storage_errors(owner.path, doing="delete"):
                await asyncio.to_thread(self._remove, directory)

    async def open(self, path: str) -> "Readable | None":
        """Open an artifact for reading; ``None`` if there is none with this path.

        The caller closes the file. A ``latest`` link is followed.
        """
        try:
            found = await self._open(path)
            if found.intact:
                return found
            # It may be about to be replaced: look again when nobody writes here.
            found.file.close()
            async with self._owners.of(path.rpartition("/")[0]):
                return await self._open(path)
        except (OSError, StalledError):
            return None

    async def _open(self, path: str) -> "Readable":
        name = await asyncio.to_thread(self._locate, layout.require_path(path))
        file = await asyncio.to_thread(name.open, "rb", buffering=0)
        with contextlib.ExitStack() as stack:
            stack.callback(file.close)
            expected = await asyncio.to_thread(_recorded, name)
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
        # Whoever took over a directory of Flux's finds no digests in it. On a full disk that
        # can wait; the artifact is what it should be.
        with contextlib.suppress(OSError):
            _vouch(path, digest)
        return True

    def _write(
        self, target: Path, tree: Path, ignore: Ignore, checkpoint: Checkpoint
    ) -> tuple[Packed, float]:
        """Return what was packed and when it was stored."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with _unfinished(target.parent) as (temporary, file):
            packed = archive.pack(tree, file, ignore, checkpoint=checkpoint)
            file.flush()
            if not self._holds(target, packed.digest, checkpoint):
                os.fsync(file.fileno())
                temporary.replace(target)
                _sync(target.parent)
                self._holds(target, packed.digest, checkpoint)
        _vouch(target, packed.digest)
        _link(target)
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

    def _collect(self, directory: Path, keep: str) -> tuple[str, ...]:
        files, unfinished = _listed(directory)
        now = time.time()
        names = retention.expired(
            files, current=keep, now=now, ttl=self._retention_ttl, records=self._retention_records
        )
        for name in names:
            (directory / f"{layout.DIGEST}{name}").unlink(missing_ok=True)
            (directory / name).unlink(missing_ok=True)
            self._digests.forget(directory / name)
        # What a killed process left half-written; we hold the owner's lock, so it is not ours.
        for file in unfinished:
            if now - file.modified > self._retention_ttl:
                (directory / file.name).unlink(missing_ok=True)
        return names

    def _remove(self, directory: Path) -> None:
        for file in _listed(directory)[0]:
            self._digests.forget(directory / file.name)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)

    def _locate(self, path: str) -> Path:
        """Return the file behind a path; a link may only name a neighbour."""
        name = self.root / path
        if name.is_symlink():
            name = name.parent / layout.require_name(str(name.readlink()))
        root = self.root.resolve()
        if name.parent.resolve() != root / path.rpartition("/")[0] or name.is_symlink():
            raise StalledError(f"'{path}' leads out of the store")
        if not name.is_file():
            raise FileNotFoundError(path)
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """An artifact opened for reading."""

    name: str
    file: FileIO
    size: int
    modified: float
    digest: str
    intact: bool
    """Whether this is what was stored."""


@contextmanager
def _unfinished(directory: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Give a file in ``directory`` that is gone afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=layout.UNFINISHED, dir=directory)
    path = Path(name)
    try:
        with open(descriptor, "wb", buffering=1 << 20) as file:  # noqa: PTH123  # a descriptor
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def _vouch(target: Path, digest: str) -> None:
    """Write down the digest beside the file; a reader in between finds the file damaged."""
    if _recorded(target) == digest:
        return
    with _unfinished(target.parent) as (temporary, file):
        file.write(digest.encode())
        file.flush()
        temporary.replace(target.parent / f"{layout.DIGEST}{target.name}")


def _recorded(target: Path) -> str:
    """Return the digest that was stored for a file, or nothing."""
    try:
        text = (target.parent / f"{layout.DIGEST}{target.name}").read_text()
    except OSError:
        return ""
    return text if text.partition(":")[0] in ALGORITHMS else ""


def _link(target: Path) -> None:
    """Point ``latest`` at the newest artifact, replacing the old link in one step."""
    link = target.parent / layout.latest(target.name)
    if link.is_symlink() and str(link.readlink()) == target.name:
        return
    temporary = target.parent / f"{layout.UNFINISHED}{os.getpid()}-{time.monotonic_ns()}"
    try:
        temporary.symlink_to(target.name)
        temporary.replace(link)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        message = f"cannot point '{link.name}' at '{target.name}': {exc.strerror}"
        raise TransientError(message, reason="SymlinkUpdateFailed") from exc


def _sync(directory: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _listed(directory: Path) -> tuple[list[retention.Stored], list[retention.Stored]]:
    """Return the artifacts of a directory, and what somebody is or was writing there."""
    files, unfinished = [], []
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as listing:
        for entry in listing:
            status = entry.stat(follow_symlinks=False)
            stored = retention.Stored(name=entry.name, modified=status.st_mtime)
            if entry.name.startswith(layout.UNFINISHED):
                unfinished.append(stored)
            elif entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                files.append(stored)
    return files, unfinished


@contextmanager
def _storage_errors(path: str, *, doing: str = "store") -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "; free space or enlarge the storage volume" if full else ""
        message = f"cannot {doing} artifact '{path}': {exc.strerror or exc}{remedy}"
        raise TransientError(message, reason=REASON) from exc
