"""Digests of files, computed once and believed as long as the file is untouched.

Reading 200 MB to find that nothing changed would make an idle interval expensive. A file that has
the same inode, size, modification and change time as when it was read has the same content, short
of a disk that forgets silently; everything is read again after a restart.
"""

import hashlib
import os
from io import FileIO
from pathlib import Path
from typing import Final, TypeAlias

from toolkit.artifact import threads
from toolkit.artifact.locks import Locks
from toolkit.artifact.threads import Checkpoint

ALGORITHMS: Final = ("sha256", "sha384", "sha512")
"""The algorithms that Flux can be configured to use and Python supports."""


def of_file(
    path: Path, algorithm: str = ALGORITHMS[0], checkpoint: Checkpoint = threads.go_on
) -> str:
    """Return ``<algorithm>:<hex>`` of a file; blocks. Raises ``OSError``."""
    with path.open("rb", buffering=0) as file:
        return f"{algorithm}:{_hash(file, algorithm, checkpoint)}"


class Digests:
    """A cache of the digests of files in one store."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Identity, str]] = {}
        self._locks = Locks()

    async def of_open(self, path: Path, file: FileIO, algorithm: str = ALGORITHMS[0]) -> str:
        """Return ``<algorithm>:<hex>`` of the content of ``file``, opened at ``path``.

        Concurrent callers share one read. The position of the file changes.
        """
        async with self._locks.of(str(path)):
            if known := self._recall(path, file, algorithm):
                return known
            return await threads.run(lambda check: self.measure(path, file, algorithm, check))

    def measure(
        self,
        path: Path,
        file: FileIO,
        algorithm: str = ALGORITHMS[0],
        checkpoint: Checkpoint = threads.go_on,
    ) -> str:
        """Return the same, blocking."""
        if known := self._recall(path, file, algorithm):
            return known
        before = _identity(file)
        digest = f"{algorithm}:{_hash(file, algorithm, checkpoint)}"
        if _identity(file) == before:
            self._known[str(path)] = (before, digest)
        return digest

    def forget(self, path: Path) -> None:
        """Drop the digest of a deleted file."""
        self._known.pop(str(path), None)

    def _recall(self, path: Path, file: FileIO, algorithm: str) -> str:
        identity, digest = self._known.get(str(path), (None, ""))
        same = identity is not None and identity == _identity(file)
        return digest if same and digest.startswith(f"{algorithm}:") else ""


_Identity: TypeAlias = tuple[int, int, int, int, int]
_CHUNK: Final = 1 << 20


def _identity(file: FileIO) -> _Identity:
    status = os.fstat(file.fileno())
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _hash(file: FileIO, algorithm: str, checkpoint: Checkpoint) -> str:
    hasher = hashlib.new(algorithm)
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    file.seek(0)
    while count := file.readinto(buffer):
        checkpoint()
        hasher.update(view[:count])
    return hasher.hexdigest()
