"""The artifact store on a local directory: written by the source component alone.

The layout is Flux's: ``<kind>/<namespace>/<name>/<file>``, a ``latest`` link beside it, the same
path behind the advertised address. A file appears whole or not at all, and one whose content is
already there is not written again. Nothing is kept in memory that a restart could lose.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from crds.meta import Artifact
from toolkit.artifact import archive
from toolkit.artifact.ignore import Ignore
from toolkit.errors import StalledError, TransientError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]*")
_CHUNK: Final = 1 << 20
_NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The source object that artifacts belong to."""

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the owner's directory below the storage root.

        Raises:
            StalledError: a part could lead out of the root.
        """
        parts = (self.kind.lower(), self.namespace, self.name)
        for part in parts:
            _require_name(part)
        return "/".join(parts)


class Store(Protocol):
    """Where artifacts live; what the source reconciler needs of any backend."""

    async def store(  # noqa: PLR0913 - what an artifact is
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
    """``Store`` on a local directory."""

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
        self._seen: dict[str, tuple[tuple[int, ...], str]] = {}

    async def store(  # noqa: PLR0913 - what an artifact is
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
            StalledError: an ignore rule or a name is not valid.
            TransientError: the disk is full or failed; earlier artifacts are untouched.
        """
        path = f"{owner.path}/{_require_name(filename)}"
        packed = await asyncio.to_thread(self._write, path, tree, ignore)
        return Artifact(
            digest=packed.digest,
            last_update_time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            path=path,
            revision=revision,
            url=f"http://{self._advertised}/{path}",
            size=packed.size,
            metadata=dict(metadata),
        )

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact is there and has its digest.

        The file is read once; after that an unchanged inode, size and time answer for it.
        """
        try:
            path = self.path(artifact)
            return await asyncio.to_thread(self.digest, path) == artifact.digest
        except (OSError, StalledError):
            return False

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete artifacts past their retention, never ``current``; return their names."""
        keep = Path(current.path).name if current else ""
        return await asyncio.to_thread(self._collect, self.root / owner.path, keep)

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner."""
        directory = self.root / owner.path
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def path(self, artifact: Artifact) -> Path:
        """Return the artifact's file.

        Raises:
            StalledError: the path could lead out of the root.
        """
        for part in artifact.path.split("/"):
            _require_name(part)
        return self.root / artifact.path

    def digest(self, path: Path) -> str:
        """Return ``sha256:<hex>`` of a file; blocks while it is read for the first time.

        Raises:
            OSError: it cannot be read.
        """
        status = path.stat()
        identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._seen.get(str(path))
        if known and known[0] == identity:
            return known[1]
        digest = _digest(path)
        self._seen[str(path)] = (identity, digest)
        return digest

    def _write(self, path: str, tree: Path, ignore: Ignore) -> archive.Packed:
        target = self.root / path
        with _storage_errors(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            with _temporary(target) as (temporary, file):
                packed = archive.pack(tree, file, ignore)
                file.flush()
                os.fsync(file.fileno())
                if not target.is_file() or self.digest(target) != packed.digest:
                    temporary.chmod(0o644)
                    temporary.replace(target)
            _link(target)
        return packed

    def _collect(self, directory: Path, keep: str) -> tuple[str, ...]:
        """Spare the newest ``retention_records`` and what is younger than ``retention_ttl``."""
        try:
            found = [p for p in directory.iterdir() if p.is_file() and not p.is_symlink()]
        except FileNotFoundError:
            return ()
        deadline = time.time() - self._retention_ttl
        for path in found:
            # what a killed process left half-written
            if path.name.startswith(".tmp-") and path.stat().st_mtime < deadline:
                path.unlink(missing_ok=True)
        files = [path for path in found if not path.name.startswith(".")]
        files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        removed = []
        for path in files[self._retention_records :]:
            if path.name != keep and path.stat().st_mtime < deadline:
                path.unlink(missing_ok=True)
                self._seen.pop(str(path), None)
                removed.append(path.name)
        return tuple(removed)


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, "tempfile._TemporaryFileWrapper[bytes]"]]:
    """Give a file beside ``target`` that is gone afterwards unless it was renamed."""
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".tmp-", delete=False) as file:
        path = Path(file.name)
        try:
            yield path, file
        finally:
            path.unlink(missing_ok=True)


def _link(target: Path) -> None:
    """Point ``latest`` at the newest artifact, replacing the old link in one step."""
    suffix = ".tar.gz" if target.name.endswith(".tar.gz") else target.suffix
    temporary = target.parent / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.name)
    temporary.replace(target.parent / f"latest{suffix}")


@contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "free space or enlarge the volume" if error.errno == errno.ENOSPC else ""
        message = f"cannot store artifact '{path}': {error.strerror}"
        raise TransientError(
            f"{message}; {remedy}" if remedy else message, reason="ArchiveOperationFailed"
        ) from error


def _digest(path: Path) -> str:
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"


def _require_name(part: str) -> str:
    if not _NAME.fullmatch(part) or part.endswith(".lock"):
        raise StalledError(f"'{part}' is not a valid part of an artifact path")
    return part
