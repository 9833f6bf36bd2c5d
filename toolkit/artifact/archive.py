"""Pack a directory into a tarball that depends on its content alone, and unpack one safely.

The form is Flux's (fluxcd/pkg ``tar``, source-controller ``storage.go``): names relative to the
root, regular files and directories only, owner 0, no times, mode 0600 (0700 if executable), 0750
for directories. Entries are sorted and the gzip header carries no name and no time, so equal trees
give equal bytes and a digest identifies the content.

Both functions block: call them in a thread. Memory stays flat, whatever the size.
"""

import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from toolkit.artifact.ignore import Ignore
from toolkit.errors import StalledError, TransientError

_CHUNK: Final = 1 << 20
_COMPRESSION: Final = 6


@dataclass(frozen=True, slots=True)
class Packed:
    """What a tarball came out as: ``sha256:<hex>`` and its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an artifact may unpack to."""

    files: int = 50_000
    total_bytes: int = 2 << 30
    file_bytes: int = 1 << 30


DEFAULT_LIMITS: Final = Limits()


class _Hashing:
    """A file object that digests and counts what is written through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def pack(tree: Path, out: IO[bytes], ignore: Ignore) -> Packed:
    """Write the files of ``tree`` that are not ignored to ``out``.

    Raises:
        StalledError: an ignore rule is not valid.
        OSError: the disk failed or is full.
    """
    sink = _Hashing(out)
    with (
        gzip.GzipFile(
            filename="", mode="wb", fileobj=sink, mtime=0, compresslevel=_COMPRESSION
        ) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name, entry in _walk(tree, ignore):
            _add(tar, name, entry)
    return Packed(sink.digest(), sink.size)


def unpack(tarball: Path, into: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """Unpack regular files and directories below ``into``, which is created; links are skipped.

    Raises:
        StalledError: an entry leads out of ``into``, or the content exceeds the limits.
        TransientError: the file is not a gzipped tarball.
    """
    into.mkdir(parents=True, exist_ok=True)
    budget = _Budget(limits)
    try:
        with tarfile.open(tarball, mode="r|gz") as tar:
            for member in tar:
                budget.take(member)
                _extract(tar, member, into)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise TransientError(f"the artifact is not a readable tarball: {error}") from error


class _Budget:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = 0
        self._bytes = 0

    def take(self, member: tarfile.TarInfo) -> None:
        self._files += 1
        self._bytes += member.size
        if self._files > self._limits.files:
            raise StalledError(f"the artifact holds more than {self._limits.files} files")
        if member.size > self._limits.file_bytes or self._bytes > self._limits.total_bytes:
            raise StalledError(
                f"the artifact unpacks to more than {self._limits.total_bytes >> 20} MiB"
            )


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise StalledError(f"the artifact entry {member.name!r} leads out of its directory")
    target = into / path
    if member.isdir():
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif member.isreg():
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        source = tar.extractfile(member)
        if source is not None:
            _copy(source, target, executable=bool(member.mode & stat.S_IXUSR))


def _copy(source: IO[bytes], target: Path, *, executable: bool) -> None:
    # O_EXCL: nothing that an earlier entry made is written through
    mode = 0o755 if executable else 0o644
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        while chunk := source.read(_CHUNK):
            file.write(chunk)


def _walk(tree: Path, ignore: Ignore) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield what goes into the tarball, directories before their content, by name."""
    matcher = ignore.matcher(tree)

    def visit(directory: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        matcher.enter(directory)
        with os.scandir(tree / directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            name = f"{directory}/{entry.name}" if directory else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if not (is_directory or entry.is_file(follow_symlinks=False)):
                continue
            if matcher.ignored(name, directory=is_directory):
                continue
            yield name, entry
            if is_directory:
                yield from visit(name)

    yield from visit("")


def _add(tar: tarfile.TarFile, name: str, entry: os.DirEntry[str]) -> None:
    info = tarfile.TarInfo(name)
    if entry.is_dir(follow_symlinks=False):
        info.type, info.mode = tarfile.DIRTYPE, 0o750
        tar.addfile(info)
        return
    status = entry.stat(follow_symlinks=False)
    info.mode = 0o700 if status.st_mode & stat.S_IXUSR else 0o600
    info.size = status.st_size
    with Path(entry.path).open("rb") as file:
        tar.addfile(info, file)
