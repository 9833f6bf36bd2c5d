"""A packaged chart: a gzipped tarball with one directory, read with suspicion, written alike.

A package that is written depends on names and contents alone: Chart.yaml first, then by name,
mode 0644, no owner and no times. Everything is in memory, within the bounds that Helm has for a
chart; all this blocks and is done in a worker.
"""

import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from toolkit.artifact import tarball, threads
from toolkit.chart import limits
from toolkit.chart.metadata import CHART
from toolkit.errors import TransientError


class PackageError(ValueError):
    """A package is none, or too much of one; the message says why."""


def load(path: Path) -> dict[str, bytes]:
    """Return the files of the package at ``path`` by their names below the chart's directory.

    Raises:
        PackageError: see the class.
    """
    if path.stat().st_size > limits.CHART_BYTES:
        raise PackageError(f"it is larger than {limits.CHART_BYTES >> 20} MiB")
    with path.open("rb") as file:
        return _load(file)


def loads(data: bytes) -> dict[str, bytes]:
    """Return the files of a package that is in memory, as ``load``."""
    return _load(io.BytesIO(data))


def write(name: str, files: Mapping[str, bytes], out: Path) -> None:
    """Write the package of the chart ``name`` to ``out``.

    Raises:
        PackageError: it is larger than a chart may be.
    """
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    size = 0
    with out.open("wb") as file:
        for block in _tar(name, files):
            size += file.write(deflate.compress(block))
        size += file.write(deflate.flush())
    if size > limits.CHART_BYTES:
        raise PackageError(f"it is larger than {limits.CHART_BYTES >> 20} MiB")


class Budget:
    """Counts the files of one chart and their bytes, and refuses the one that is too much."""

    def __init__(self) -> None:
        self._bytes = 0
        self._files = 0

    def take(self, name: str, size: int) -> None:
        """Count one file.

        Raises:
            PackageError: one bound is passed.
        """
        self._bytes += size
        self._files += 1
        shown = ascii(name)[1:-1][:300]
        if size > limits.FILE_BYTES:
            raise PackageError(f"'{shown}' is larger than {limits.FILE_BYTES >> 20} MiB")
        if self._bytes > limits.UNPACKED_BYTES:
            raise PackageError(f"its files are larger than {limits.UNPACKED_BYTES >> 20} MiB")
        if self._files > limits.FILES:
            raise PackageError(f"it has more than {limits.FILES} files")
        if name.count("/") >= limits.PATH_DEPTH:
            raise PackageError(f"'{shown}' lies deeper than {limits.PATH_DEPTH} directories")


BOM: Final = b"\xef\xbb\xbf"
_LEVEL: Final = 6
_HEADERS: Final = 4 * tarfile.BLOCKSIZE


def _load(file: IO[bytes]) -> dict[str, bytes]:
    budget = Budget()
    files: dict[str, bytes] = {}
    most = limits.UNPACKED_BYTES + limits.FILES * _HEADERS
    reader = tarball.Reader(file, limit=most, checkpoint=threads.go_on)
    try:
        for member in reader.members():
            name = _inner(member.name, is_directory=member.is_directory)
            budget.take(name, member.size)
            if not member.is_file:
                continue  # directories come with their files, links are not followed
            if name in files:
                raise PackageError(f"'{ascii(name)[1:-1]}' occurs twice in it")
            files[name] = b"".join(reader.content()).removeprefix(BOM)
    except TransientError as exc:
        raise PackageError(str(exc)) from exc
    if not files:
        raise PackageError("it has no files")
    return files


def _inner(name: str, *, is_directory: bool) -> str:
    """Return a member's name without the directory that every package has (Helm: LoadArchive)."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name:
        raise PackageError(f"its entry '{ascii(name)[1:-1][:300]}' leads out")
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise PackageError("it has a file whose name is not UTF-8") from exc
    if len(parts) < 2 and not is_directory:
        raise PackageError(f"its file '{ascii(name)[1:-1][:300]}' is in no directory")
    return "/".join(parts[1:])


def _tar(name: str, files: Mapping[str, bytes]) -> Iterator[bytes]:
    for inner in sorted(files, key=lambda inner: (inner != CHART, inner)):
        content = files[inner]
        info = tarfile.TarInfo(f"{name}/{inner}")
        info.mode, info.size = 0o644, len(content)
        yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        yield content
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
