"""Pack a directory into a reproducible tarball, and unpack an untrusted one safely.

The format is Flux's (source-controller ``storage.go``): names relative to the root, regular files
and directories only, owner 0, no times, mode 0600 (0700 if executable), 0750 for directories.
Entries are sorted and the gzip header has no name and no time, so equal trees give equal bytes, and
a digest identifies the content. Unpacking trusts nothing: it creates no links, writes nothing
through a link or twice, and checks the limits while it decompresses.

Both functions block: call them in a thread. Memory use does not depend on the size.
"""

import errno
import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Final

from toolkit.artifact import beneath, limits, tarball, threads
from toolkit.artifact.ignore import Entry, Ignore
from toolkit.artifact.limits import Limits
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import TransientError

REASON: Final = "ArchiveOperationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The result of packing: digest ``sha256:<hex>`` and size in bytes."""

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
        for block in _file(tree, entry, budget):
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
    made: set[str] = set()
    with source.open("rb") as file:
        reader = tarball.Reader(file, limit=_unpacked_limit(bounds), checkpoint=checkpoint)
        budget = _Budget(bounds)
        for member, name in _admitted(reader, budget):
            # 3. Create only files and directories, and overwrite nothing.
            if member.is_directory:
                _make_directory(into, name, made, budget, stated=True)
            elif member.is_file:
                _make_directory(into, name.rpartition("/")[0], made, budget, stated=False)
                _write_file(reader, into, name, executable=member.executable)
    return budget.used


def check(
    source: Path, bounds: Limits = limits.DEFAULT, *, checkpoint: Checkpoint = threads.go_on
) -> int:
    """Read a tarball and make nothing: raise where ``unpack`` would.

    Returns the size of the files in bytes.
    """
    used = 0
    for found in files(source, bounds, checkpoint=checkpoint):
        used += found.size
        for _ in found.content:
            pass
    return used


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file in a tarball; its content can be read until the next file is requested."""

    name: str
    size: int
    executable: bool
    content: Iterator[bytes]


def files(
    source: Path, bounds: Limits = limits.DEFAULT, *, checkpoint: Checkpoint = threads.go_on
) -> Iterator[Found]:
    """Yield the files of a tarball without writing them; raise the errors of ``unpack``.

    In addition, the data after the last entry must be valid too, because other programs that unpack
    the tarball may read it.
    """
    names: dict[str, bool] = {"": True}
    with open_regular(source) as file:
        reader = tarball.Reader(file, limit=_unpacked_limit(bounds), checkpoint=checkpoint)
        budget = _Budget(bounds)
        for member, name in _admitted(reader, budget):
            if member.is_directory:
                _note(names, name, budget, stated=True)
            elif member.is_file:
                _note(names, name.rpartition("/")[0], budget, stated=False)
                if name in names:
                    raise _twice(name)
                names[name] = False
                yield Found(
                    name=name,
                    size=member.size,
                    executable=member.executable,
                    content=reader.content(),
                )
        reader.finish()


def copy(source: Path, out: IO[bytes], *, checkpoint: Checkpoint = threads.go_on) -> Packed:
    """Write ``source``, a regular file, to ``out`` as it is.

    Raises:
        TransientError: it is not a regular file, or larger than an artifact may be.
        OSError: the disk failed or is full.
    """
    hasher, size = hashlib.sha256(), 0
    with open_regular(source) as file:
        _bounded(os.fstat(file.fileno()).st_size)
        while chunk := file.read(_CHUNK):
            checkpoint()
            hasher.update(chunk)
            size += len(chunk)
            _bounded(size)  # it may have grown since
            out.write(chunk)
    return Packed(digest=f"sha256:{hasher.hexdigest()}", size=size)


def _bounded(size: int) -> None:
    if size > limits.PACKED:
        raise TransientError(
            f"the artifact is larger than {limits.PACKED >> 20} MiB", reason=REASON
        )


def open_regular(path: Path) -> FileIO:
    """Open a regular file without following links or blocking.

    Raises:
        TransientError: the path is not a regular file.
        OSError: the disk failed, or there is no such file.
    """
    try:
        descriptor = beneath.opened(path.parent, (path.name,), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise TransientError(f"'{_shown(path.name)}' is a link", reason=REASON) from exc
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TransientError(f"'{_shown(path.name)}' is not a regular file", reason=REASON)
    return FileIO(descriptor)


_CHUNK: Final = 256 << 10
_LEVEL: Final = 6
_ALL_NAMES: Final = 32 << 20
"""Characters of all paths together, which are kept while an artifact is unpacked."""
_LONGEST_NAME: Final = 255
"""Bytes; what Linux's file systems take."""
_LONGEST_PATH: Final = 3072
"""Bytes; leaves room in Linux's 4096 for the directory that is unpacked into."""


class _Budget:
    """Counts entries and bytes, and refuses the one that is too much."""

    def __init__(self, bounds: Limits) -> None:
        self._bounds = bounds
        self._entries = 0
        self._names = 0
        self.used = 0

    def take(self, name: str, size: int) -> None:
        bounds = self._bounds
        self._entries += 1
        self._names += len(name)
        self.used += size
        if self._entries > bounds.entries:
            raise TransientError(
                f"the artifact has more than {bounds.entries} files and directories", reason=REASON
            )
        if self._names > _ALL_NAMES:
            raise TransientError("the artifact's paths are too long together", reason=REASON)
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
    """Compresses into a file, and computes the digest of the output."""

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


def _file(tree: Path, entry: Entry, budget: _Budget) -> Iterator[bytes]:
    """Yield header and content of a file, padded to whole blocks."""
    # The walk saw a regular file; if it was replaced since, do not follow a link or block.
    descriptor = beneath.opened(tree, entry.name.split("/"), os.O_RDONLY | os.O_NONBLOCK)
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


def _admitted(reader: tarball.Reader, budget: _Budget) -> Iterator[tuple[tarball.Member, str]]:
    """Yield each member and its name below the root."""
    for member in reader.members():
        # 1. A name is a path below the root, spelled out.
        name = "/".join(_segments(member.name))
        # 2. The header's size is believed only as an upper bound; the reader ends with it.
        budget.take(name, member.size)
        yield member, name


def _note(names: dict[str, bool], directory: str, budget: _Budget, *, stated: bool) -> None:
    """Note a directory and those above it; ``names`` tells directories from files."""
    while directory not in names:
        if not stated:
            budget.take(directory, 0)
        names[directory] = True
        directory, stated = directory.rpartition("/")[0], False
    if not names[directory]:
        raise _twice(directory)


def _unpacked_limit(bounds: Limits) -> int:
    """Return the limit for decompressed bytes: content, and headers and padding per entry."""
    return bounds.total_bytes + bounds.entries * 4 * tarfile.BLOCKSIZE


def _segments(name: str) -> list[str]:
    """Split the name of an entry; ``.`` is the root itself."""
    segments = name.split("/")
    if name.startswith("/") or "\0" in name or ".." in segments:
        raise TransientError(
            f"the artifact entry '{_shown(name)}' points outside the archive", reason=REASON
        )
    if len(os.fsencode(name)) > _LONGEST_PATH or any(
        len(os.fsencode(segment)) > _LONGEST_NAME for segment in segments
    ):
        raise TransientError(f"the artifact entry '{_shown(name)}' is too long", reason=REASON)
    return [segment for segment in segments if segment not in ("", ".")]


def _make_directory(
    into: Path, name: str, made: set[str], budget: _Budget, *, stated: bool
) -> None:
    """Create directory ``name`` and its missing parents; ``made`` caches the existing ones.

    A directory without an entry of its own (``stated``) counts like an entry, so that a long path
    does not create many directories for free.
    """
    if not name or name in made:
        return
    _make_directory(into, name.rpartition("/")[0], made, budget, stated=False)
    if not stated:
        budget.take(name, 0)
    try:
        beneath.made(into, name.split("/"))
    except FileExistsError:
        raise _twice(name) from None
    made.add(name)


def _write_file(reader: tarball.Reader, into: Path, name: str, *, executable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        names = name.split("/") if name else ()
        descriptor = beneath.opened(into, names, flags, 0o700 if executable else 0o600)
    except FileExistsError:
        raise _twice(name) from None
    with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, no path
        file.writelines(reader.content())


def _twice(name: str) -> TransientError:
    return TransientError(f"the artifact entry '{_shown(name)}' occurs twice", reason=REASON)


def _shown(name: str) -> str:
    """Shorten a path for a message, and keep control characters out of it."""
    return ascii(name[:200])[1:-1]
