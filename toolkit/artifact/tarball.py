"""Read a gzipped tarball from an untrusted party, as a stream.

Python's ``tarfile`` reads extended headers of any size into memory and supports forms that an
artifact never has. This reader supports regular files, directories and links, symbolic or hard, by
name, and long names in all their forms (ustar prefix, PAX ``path``, GNU ``L``); everything else is
an error.
Memory is bounded by a chunk and by the longest name; the decompressor is asked for no more than is
needed.
"""

import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

from toolkit.artifact.threads import Checkpoint
from toolkit.errors import TransientError

REASON: Final = "ArchiveOperationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of a tarball; neither file nor directory is a link."""

    name: str
    size: int
    is_file: bool
    is_directory: bool
    executable: bool


class Reader:
    """Iterates over members; the content of the current one can be read once, in order."""

    def __init__(self, file: IO[bytes], *, limit: int, checkpoint: Checkpoint) -> None:
        self._gzip = _Gunzip(file, limit)
        self._checkpoint = checkpoint
        self._left = 0
        self._padding = 0
        self._extensions = 0

    def members(self) -> Iterator[Member]:
        """Yield the members up to the end mark.

        Raises:
            TransientError: not a tarball, cut off, or with an entry of a kind that is refused.
        """
        extended: dict[str, str] = {}
        while True:
            self._checkpoint()
            self._skip()
            header = self._gzip.exactly(tarfile.BLOCKSIZE)
            if not any(header):
                return
            info = _parse(header)
            if info.type in _EXTENDED:
                extended |= self._extension(info)
                continue
            yield self._member(info, extended)
            extended = {}

    def content(self) -> Iterator[bytes]:
        """Yield the content of the current member in chunks."""
        while self._left:
            self._checkpoint()
            chunk = self._gzip.some(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk

    def finish(self) -> None:
        """Read the data after the end mark up to the checksum.

        Raises:
            TransientError: the file is truncated or damaged, or other data follows.
        """
        while self._gzip.more():
            self._checkpoint()

    def _member(self, info: tarfile.TarInfo, extended: dict[str, str]) -> Member:
        name = extended.get("path", info.name)
        if info.type not in _KNOWN or any(key.startswith("GNU.sparse") for key in extended):
            kind = _OTHERS.get(info.type, "a sparse file" if info.type in _KNOWN else "unknown")
            raise TransientError(
                f"entry {name[:_SHOWN]!a} of the artifact is not allowed: it is {kind}, and no "
                "file, directory or link: leave it out",
                reason=REASON,
            )
        size = _number(extended["size"]) if "size" in extended else info.size
        self._expect(size if info.type in _FILE else 0)
        return Member(
            name=name,
            size=self._left,
            is_file=info.type in _FILE,
            is_directory=info.type == tarfile.DIRTYPE,
            executable=bool(info.mode & 0o100),
        )

    def _expect(self, size: int) -> None:
        if size < 0:
            raise _damaged("a size is negative")
        self._left = size
        self._padding = -size % tarfile.BLOCKSIZE

    def _skip(self) -> None:
        for _ in self.content():
            pass
        self._gzip.exactly(self._padding)
        self._padding = 0

    def _extension(self, info: tarfile.TarInfo) -> dict[str, str]:
        """Read a header that describes the next member, or is for all of them and ignored."""
        self._extensions += tarfile.BLOCKSIZE + info.size
        if not 0 <= info.size <= _LONGEST_HEADER or self._extensions > _ALL_HEADERS:
            raise _damaged("an extended header is too long, or there are too many")
        self._expect(info.size)
        data = b"".join(self.content())
        if info.type == tarfile.GNUTYPE_LONGNAME:
            return {"path": _text(data.rstrip(b"\0"))}
        return _records(data) if info.type == tarfile.XHDTYPE else {}


_CHUNK: Final = 256 << 10
_LONGEST_HEADER: Final = 64 << 10
_ALL_HEADERS: Final = 32 << 20
"""Bytes of all extended headers together: 600 for each entry that there may be."""
_FILE: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
_KNOWN: Final = (*_FILE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)
_OTHERS: Final = {
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_SHOWN: Final = 200
"""Characters of a name in a message."""
_EXTENDED: Final = (
    tarfile.XHDTYPE,  # PAX, for the next entry
    tarfile.XGLTYPE,  # PAX, for all entries: git archive writes the commit there
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,  # a link's target, which is of no interest
)


class _Gunzip:
    """Reads a gzip stream, up to a limit of decompressed bytes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._left = limit
        self._inflate = zlib.decompressobj(31)
        self._input = b""

    def some(self, wanted: int) -> bytes:
        """Return between one byte and ``wanted``."""
        while self._filled():
            if data := self._step(wanted):
                return data
        raise _damaged("it is cut off")

    def exactly(self, wanted: int) -> bytes:
        """Return ``wanted`` bytes."""
        data = bytearray()
        while len(data) < wanted:
            data += self.some(wanted - len(data))
        return bytes(data)

    def more(self) -> bool:
        """Skip the next bytes; return False at a valid end."""
        if self._filled():
            self._step(_CHUNK)
            return True
        if not self._inflate.eof:
            raise _damaged("it is cut off")
        return False

    def _filled(self) -> bool:
        self._input = self._input or self._file.read(_CHUNK)
        return bool(self._input)

    def _step(self, wanted: int) -> bytes:
        """Decompress one step; the result may be empty."""
        if self._inflate.eof:
            self._inflate = zlib.decompressobj(31)  # gzip files may be strung together
        try:
            data = self._inflate.decompress(self._input, wanted)
        except zlib.error as exc:
            raise _damaged("it is not gzip, or its checksum is wrong") from exc
        self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
        return self._count(data)

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise TransientError("the unpacked artifact is too large", reason=REASON)
        return data


_LENGTH: Final = re.compile(rb"([0-9]{1,19}) ")
_MEANT: Final = (b"path", b"size")


def _parse(header: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError as exc:
        raise _damaged("a header is not one") from exc


def _records(data: bytes) -> dict[str, str]:
    """Parse PAX records: ``<length> <key>=<value>`` and a newline each (POSIX ``pax``).

    One pass over the data; unknown keys are dropped.
    """
    records, start = {}, 0
    while start < len(data):
        length = _LENGTH.match(data, start)
        end = start + int(length[1]) if length else 0
        # A length includes itself. A length that makes no progress would cause an endless loop.
        if length is None or not length.end() < end <= len(data):
            raise _damaged("an extended header is malformed")
        key, equals, value = data[length.end() : end].partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise _damaged("an extended header is malformed")
        if key in _MEANT or key.startswith(b"GNU.sparse"):
            records[_text(key)] = _text(value[:-1])
        start = end
    return records


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _damaged("a number in an extended header is invalid")
    return int(text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _damaged(how: str) -> TransientError:
    return TransientError(f"the artifact is not a readable tarball: {how}", reason=REASON)
