"""Pack a directory into a tarball that depends on its content alone, and unpack one safely.

The form is Flux's (source-controller ``storage.go``): names relative to the root, regular files
and directories only, owner 0, no times, mode 0600 (0700 if executable), 0750 for directories.
Entries are sorted and the gzip header carries no name and no time, so equal trees give equal bytes
and a digest identifies the content. Unpacking trusts nothing: links are never made, nothing is
written through or twice, and the limits hold while the bytes come out of the decompressor.

Both functions block: call them in a thread. Memory stays flat, whatever the size.
"""

import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from toolkit.artifact import limits, tarball, threads
from toolkit.artifact.ignore import Entry, Ignore
from toolkit.artifact.limits import Limits
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import TransientError

REASON: Final = "ArchiveOperationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What a tarball came out as: ``sha256:<hex>`` and its size in bytes."""

    digest: str
    size: int


def pack(
    tree: Path,
    out: IO[bytes],
    ignore: Ignore,
    *,
    bounds: Limits = limits.DEFAULT,
    checkpoint: Checkpoint = threads.go_on,
) -> Packed:
    """Write the files of ``tree`` that are not ignored to ``out``.

    Raises:
        TransientError: an ignore file cannot be understood, the tree exceeds the bounds, or a file
            changed while it was read.
        OSError: the disk failed or is full.
    """
    budget = _Budget(bounds)
    sink = _Gzip(out)
    for entry in ignore.walk(tree):
        checkpoint()
        if entry.is_directory:
            budget.take(entry.name, 0)
            sink.write(_header(entry.name, tarfile.DIRTYPE, mode=0o750, size=0))
            continue
        for block in _file(entry, budget):
            checkpoint()
            sink.write(block)
    sink.write(bytes(2 * tarfile.BLOCKSIZE))
    return sink.close()


def unpack(
    source: Path,
    into: Path,
    bounds: Limits = limits.DEFAULT,
    *,
    checkpoint: Checkpoint = threads.go_on,
) -> int:
    """Unpack directories and regular files into ``into``, which is made; links are passed over.

    Returns the size of the files in bytes.

    Raises:
        TransientError: no gzipped tarball, a path that leads out or occurs twice, an entry that is
            neither file, directory nor symbolic link, or content that exceeds the bounds.
        OSError: the disk failed or is full.
    """
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    budget = _Budget(bounds)
    made: set[str] = set()
    with source.open("rb") as file:
        reader = tarball.Reader(file, limit=_unpacked_limit(bounds), checkpoint=checkpoint)
        for member in reader.members():
            # 1. A name is a path below ``into``, spelled out.
            name = "/".join(_segments(member.name))
            # 2. The header's size is believed only as an upper bound; the reader ends with it.
            budget.take(name, member.size)
            # 3. Only what cannot point anywhere is made, and nothing on top of anything else.
            if member.is_directory:
                _make_directory(into, name, made)
            elif member.is_file:
                _make_directory(into, name.rpartition("/")[0], made)
                _write_file(reader, into / name, executable=member.executable)
    return budget.used


_CHUNK: Final = 256 << 10
_LEVEL: Final = 6


class _Budget:
    """Counts entries and bytes, and refuses the one that is too much."""

    def __init__(self, bounds: Limits) -> None:
        self._bounds = bounds
        self._entries = 0
        self.used = 0

    def take(self, name: str, size: int) -> None:
        bounds = self._bounds
        self._entries += 1
        self.used += size
        if self._entries > bounds.entries:
            raise TransientError(
                f"the artifact has more than {bounds.entries} files and directories", reason=REASON
            )
        if size > bounds.file_bytes:
            raise TransientError(
                f"'{_shown(name)}' is larger than {bounds.file_bytes >> 20} MiB", reason=REASON
            )
        if self.used > bounds.total_bytes:
            raise TransientError(
                f"the artifact's files are larger than {bounds.total_bytes >> 20} MiB",
                reason=REASON,
            )
        if name.count("/") >= bounds.depth:
            raise TransientError(
                f"'{_shown(name)}' lies deeper than {bounds.depth} directories", reason=REASON
            )


class _Gzip:
    """Compresses into a file, and digests what goes there."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._hash = hashlib.sha256()
        self._size = 0
        # wbits 31 is a gzip header without name and time.
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)

    def write(self, data: bytes) -> None:
        self._emit(self._deflate.compress(data))

    def close(self) -> Packed:
        self._emit(self._deflate.flush())
        return Packed(digest=f"sha256:{self._hash.hexdigest()}", size=self._size)

    def _emit(self, data: bytes) -> None:
        if data:
            self._hash.update(data)
            self._size += len(data)
            self._out.write(data)


def _file(entry: Entry, budget: _Budget) -> Iterator[bytes]:
    """Yield header and content of a file, padded to whole blocks."""
    # The walk saw a regular file; whatever stands there by now must not be followed or waited for.
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  # a descriptor, no path
        status = os.fstat(descriptor)
        budget.take(entry.name, status.st_size)
        mode = 0o700 if status.st_mode & stat.S_IXUSR else 0o600
        yield _header(entry.name, tarfile.REGTYPE, mode=mode, size=status.st_size)
        left = status.st_size
        while left and (chunk := file.read(min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk
        if left or not stat.S_ISREG(status.st_mode):
            raise TransientError(f"'{_shown(entry.name)}' changed while read", reason=REASON)
        yield bytes(-status.st_size % tarfile.BLOCKSIZE)


def _header(name: str, kind: bytes, *, mode: int, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size = kind, mode, size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _unpacked_limit(bounds: Limits) -> int:
    """Return how much a tarball may decompress to: content, and per entry headers and padding."""
    return bounds.total_bytes + bounds.entries * 4 * tarfile.BLOCKSIZE


def _segments(name: str) -> list[str]:
    """Split a member's name; ``.`` stands for the root itself."""
    segments = name.split("/")
    if name.startswith("/") or "\0" in name or ".." in segments:
        raise TransientError(f"the artifact entry '{_shown(name)}' leads out", reason=REASON)
    return [segment for segment in segments if segment not in ("", ".")]


def _make_directory(into: Path, name: str, made: set[str]) -> None:
    """Make ``name`` and what is missing above it; ``made`` spares asking the disk."""
    if not name or name in made:
        return
    _make_directory(into, name.rpartition("/")[0], made)
    try:
        (into / name).mkdir(mode=0o700)
    except FileExistsError:
        raise _twice(name) from None
    made.add(name)


def _write_file(reader: tarball.Reader, path: Path, *, executable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o700 if executable else 0o600)
    except FileExistsError:
        raise _twice(path.name) from None
    with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, no path
        file.writelines(reader.content())


def _twice(name: str) -> TransientError:
    return TransientError(f"the artifact entry '{_shown(name)}' occurs twice", reason=REASON)


def _shown(name: str) -> str:
    """Shorten a path for a message, and keep control characters out of it."""
    return ascii(name[:200])[1:-1]
