"""The directory that becomes an artifact. No write can leave the directory.

All names are relative and have been validated (``globs.segments``), and no link is ever created
here, so each path stays below the root. Added files count against the limits of an artifact.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolkit.artifact import archive
from toolkit.artifact import limits as bounds
from toolkit.artifact.composition import limits
from toolkit.chart import document, values
from toolkit.chart.document import DocumentError
from toolkit.errors import TransientError

REASON: Final = "BuildFailed"


class Space:
    """Bytes that one build may still write."""

    def __init__(self, total: int) -> None:
        self._total = self._left = total

    def take(self, size: int) -> None:
        """Use ``size`` bytes; raise ``TransientError`` if not enough are left."""
        self._left -= size
        if self._left < 0:
            raise _failed(f"all artifacts together are larger than {self._total} bytes")


class Tree:
    """The directory of one artifact while it is built."""

    def __init__(self, root: Path, space: Space) -> None:
        self.root = root
        self._space = space
        self._entries = 0
        self._bytes = 0
        root.mkdir(mode=0o700)

    def is_directory(self, parts: tuple[str, ...]) -> bool:
        """Tell whether there is a directory at ``parts``."""
        return self.root.joinpath(*parts).is_dir()

    def put(self, source: Path, parts: tuple[str, ...]) -> None:
        """Copy a regular file to ``parts``; replace an existing file."""
        target = self._target(parts)
        with archive.open_regular(source) as file:
            status = os.fstat(file.fileno())
            self._take(status.st_size, "/".join(parts))
            with target.open("wb") as out:
                shutil.copyfileobj(file, out, _CHUNK)
                # By descriptor, because a worker may not change modes by path.
                os.fchmod(out.fileno(), 0o700 if status.st_mode & stat.S_IXUSR else 0o600)

    def merge(self, source: Path, parts: tuple[str, ...]) -> None:
        """Merge a YAML file over the one at ``parts``; copy it if one of them is no YAML file."""
        target = self.root.joinpath(*parts)
        if not (target.is_file() and _is_yaml(source.name) and _is_yaml(parts[-1])):
            self.put(source, parts)
            return
        merged = values.overlay(_mapping(target, "/".join(parts)), _mapping(source, source.name))
        data = document.dump(merged)
        self._take(len(data), "/".join(parts))
        target.write_bytes(data)

    def extract(self, tarball: Path, parts: tuple[str, ...]) -> None:
        """Unpack a tarball into the directory ``parts``; replace existing files."""
        staging = self.root.with_name(f"{self.root.name}.extract")
        try:
            archive.unpack(tarball, staging)
            for name in sorted(_walk(staging)):
                self.put(staging.joinpath(*name), (*parts, *name))
        except TransientError as exc:
            if exc.reason == REASON:
                raise
            raise _failed(f"'{_shown(tarball.name)}' cannot be unpacked: {exc}") from exc
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def digest(self) -> tuple[str, int]:
        """Return the hash over names, modes and content in hexadecimal, and the number of files.

        For files that are not executable, it is the ``h1`` hash of Go (``dirhash``).
        """
        lines = []
        for parts in _walk(self.root):
            path = self.root.joinpath(*parts)
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            mark = "*" if path.stat().st_mode & stat.S_IXUSR else " "
            lines.append((("/".join(parts)).encode(errors="surrogateescape"), content, mark))
        whole = hashlib.sha256()
        for name, content, mark in sorted(lines):
            whole.update(f"{content} {mark}".encode() + name + b"\n")
        return whole.hexdigest(), len(lines)

    def _target(self, parts: tuple[str, ...]) -> Path:
        """Return the path of a file to write; create its parent directories."""
        shown = _shown("/".join(parts))
        if not parts:
            raise _failed("a file cannot replace the root directory of the artifact")
        if len(parts) > bounds.DEFAULT.depth:
            raise _failed(f"'{shown}' lies deeper than {bounds.DEFAULT.depth} directories")
        target = self.root.joinpath(*parts)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as exc:
            raise _failed(f"'{shown}' would be inside an existing file") from exc
        if target.is_dir():
            raise _failed(f"'{shown}' is a directory already")
        return target

    def _take(self, size: int, name: str) -> None:
        most = bounds.DEFAULT
        self._entries += 1
        self._bytes += size
        if self._entries > most.entries:
            raise _failed(f"the artifact has more than {most.entries} files")
        if size > most.file_bytes:
            raise _failed(f"'{_shown(name)}' is larger than {most.file_bytes >> 20} MiB")
        if self._bytes > most.total_bytes:
            raise _failed(f"the artifact is larger than {most.total_bytes >> 20} MiB")
        self._space.take(size)


_CHUNK: Final = 256 << 10


def _mapping(path: Path, name: str) -> dict[str, object]:
    with path.open("rb") as file:
        data = file.read(limits.MERGED_BYTES + 1)
    if len(data) > limits.MERGED_BYTES:
        raise _failed(
            f"'{_shown(name)}' is larger than {limits.MERGED_BYTES >> 20} MiB, too much to merge"
        )
    try:
        return document.load_mapping(data)
    except DocumentError as exc:
        raise _failed(f"'{_shown(name)}' cannot be merged: {exc}") from exc


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


def _walk(root: Path) -> Iterator[tuple[str, ...]]:
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        with os.scandir(root.joinpath(*parts)) as listing:
            for child in listing:
                if child.is_dir(follow_symlinks=False):
                    pending.append((*parts, child.name))
                else:
                    yield (*parts, child.name)


def _shown(name: str) -> str:
    return ascii(name[:200])[1:-1]


def _failed(message: str) -> TransientError:
    return TransientError(message, reason=REASON)
