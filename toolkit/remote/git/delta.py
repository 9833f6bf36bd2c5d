"""Git's binary deltas over contents that need not fit in memory.

A body is ``bytes`` while it is small and a temporary file above ``SPILL``. Two small bodies go
through dulwich; a large one is patched piece by piece (gitformat-pack(5), "Deltified
representation").
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from dulwich.errors import ApplyDeltaError
from dulwich.pack import apply_delta

from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import MiB

SPILL: Final = 1 * MiB
_STEP: Final = 256 << 10


class Spilled:
    """A nameless temporary file that closes with its last user."""

    def __init__(self, scratch: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115  # see __del__
        self.size = 0

    def append(self, data: bytes) -> None:
        """Write at the end."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += os.pwrite(self._file.fileno(), view[written:], self.size + written)
        self.size += len(data)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``."""
        return os.pread(self._file.fileno(), size, offset)

    def __del__(self) -> None:
        self._file.close()


Body: TypeAlias = bytes | Spilled


def body(pieces: Iterable[bytes], *, size: int, scratch: Path) -> Body:
    """Collect pieces of a known total size."""
    if size <= SPILL:
        return b"".join(pieces)
    spilled = Spilled(scratch)
    for piece in pieces:
        spilled.append(piece)
    return spilled


def size(content: Body) -> int:
    """Return the number of bytes."""
    return len(content) if isinstance(content, bytes) else content.size


def chunks(content: Body) -> Iterator[bytes]:
    """Return the content in pieces."""
    if isinstance(content, bytes):
        yield content
        return
    for offset in range(0, content.size, _STEP):
        yield content.read(_STEP, offset)


def apply(base: Body, delta: Body, *, scratch: Path, limit: int) -> Body:
    """Return the result of applying ``delta`` to ``base``.

    Raises:
        GitError: the delta is damaged, or its result is larger than ``limit`` bytes.
    """
    reader = _Reader(delta)
    base_size, result_size = reader.number(), reader.number()
    if base_size != size(base):
        raise GitError("the server sent a delta against another base")
    if result_size > limit:
        raise GitError(f"a file of {result_size} bytes is larger than the {limit} allowed")
    if isinstance(base, bytes) and isinstance(delta, bytes) and result_size <= SPILL:
        try:
            return b"".join(apply_delta(base, delta))
        except ApplyDeltaError as exc:
            raise GitError(f"the server sent a damaged delta: {exc}") from exc
    result = Spilled(scratch)
    for piece in _patch(base, reader):
        if result.size + len(piece) > result_size:
            raise GitError("the server sent a delta that is longer than announced")
        result.append(piece)
    if result.size != result_size:
        raise GitError("the server sent a delta that is shorter than announced")
    return result


def _patch(base: Body, reader: "_Reader") -> Iterator[bytes]:
    while not reader.at_end():
        op = reader.byte()
        if op == 0:
            raise GitError("the server sent a delta with an unknown operation")
        if op & 0x80:
            offset = sum(reader.byte() << 8 * i for i in range(4) if op & 1 << i)
            length = sum(reader.byte() << 8 * i for i in range(3) if op & 0x10 << i) or 0x10000
            if offset + length > size(base):
                raise GitError("the server sent a delta that copies beyond the end of its base")
            yield from _slice(base, offset, length)
        else:
            yield reader.take(op)


def _slice(base: Body, offset: int, length: int) -> Iterator[bytes]:
    if isinstance(base, bytes):
        yield base[offset : offset + length]
        return
    for start in range(offset, offset + length, _STEP):
        yield base.read(min(_STEP, offset + length - start), start)


class _Reader:
    """Reads a delta from its beginning, a buffer at a time."""

    def __init__(self, delta: Body) -> None:
        self._pieces = chunks(delta)
        self._buffer = b""
        self._position = 0

    def at_end(self) -> bool:
        """Tell whether all of it is read."""
        while self._position == len(self._buffer):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._buffer, self._position = piece, 0
        return False

    def byte(self) -> int:
        """Read one byte."""
        if self.at_end():
            raise GitError("the server sent a delta that ends too early")
        self._position += 1
        return self._buffer[self._position - 1]

    def take(self, length: int) -> bytes:
        """Read ``length`` bytes."""
        taken = self._buffer[self._position : self._position + length]
        self._position += len(taken)
        while len(taken) < length:
            taken += bytes([self.byte()])
        return taken

    def number(self) -> int:
        """Read a size: seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80 or shift > 63:
                return value
