"""Binary formats with odd fields: archives, packs and deltas of Git, and DER."""

import bz2
import gzip
import hashlib
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

_SIZES: Final = st.one_of(
    st.integers(0, 700), st.sampled_from((1 << 31, 1 << 33, (1 << 63) - 1, 1 << 20))
)
_PATHS: Final = st.sampled_from(
    (
        *(
            "a.yaml",
            "d/a.yaml",
            "../a",
            "/a",
            "a/../b",
            ".",
            "",
            "./a",
            "a/",
            "d",
            "a\\b",
            "C:a",
            "\u00fc",
        ),
        *("x" * 99, "x" * 300, "d/" * 60, "a\x00b", "a\nb", ".git/config", "a.yaml/b", "A.yaml"),
    )
)
_KINDS: Final = st.sampled_from(
    (
        *(tarfile.REGTYPE,) * 6,
        *(tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE, b"V", b"M", b"\x00", b"S"),
    )
)
_RECORDS: Final = st.sampled_from(
    (
        *(b"", b"10 path=b\n", b"11 path=..\n", b"99 path=a\n", b"5 a=\n", b"x", b"13 size=9999\n"),
        *(
            b"22 GNU.sparse.major=1\n",
            b"20 linkpath=../../a\n",
            b"0 \n",
            b"-1 a=b\n",
            b"12 path=\x00a\n",
        ),
        *(b"14 mtime=-1e99\n", b"18 hdrcharset=BINARY\n", b"17 path=\xff\xfe\xfd\xfc\n"),
    )
)


@st.composite
def _member(draw: DrawFn) -> bytes:
    info = tarfile.TarInfo(draw(_PATHS))
    info.type = draw(_KINDS)
    info.linkname = draw(_PATHS)
    info.mode = draw(st.sampled_from((0o644, 0o755, 0o4755, 0)))
    info.mtime = draw(st.sampled_from((0, 1, (1 << 33) - 1)))
    info.size = draw(_SIZES)
    head = info.tobuf(tarfile.PAX_FORMAT if draw(st.booleans()) else tarfile.GNU_FORMAT)
    body = draw(st.one_of(_RECORDS, st.binary(max_size=20))) * draw(st.sampled_from((1, 1, 40)))
    room = min(info.size, 1024) if draw(st.integers(0, 4)) else len(body)
    body = body[:room].ljust(room, b"\0")
    return head + body + bytes(-len(body) % 512)


_PACKERS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    *(gzip.compress,) * 4,
    *(
        lambda data: data,
        lambda data: gzip.compress(gzip.compress(data)),
        bz2.compress,
        lzma.compress,
    ),
    *(lambda data: gzip.compress(data[:512]) + gzip.compress(data[512:]), zlib.compress),
    lambda data: gzip.compress(data)[:-4],
    lambda data: gzip.compress(data) + b"\0\0garbage",
    lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
)


@st.composite
def tarballs(draw: DrawFn) -> bytes:
    """Return archives, which are packed in some way or not at all."""
    members = draw(st.lists(_member(), max_size=5))
    end = draw(st.sampled_from((bytes(1024), bytes(512), b"", bytes(10_240))))
    data = b"".join(members) + end
    return draw(st.sampled_from(_PACKERS))(data)


def packed(*objects: bytes, count: int | None = None) -> bytes:
    """Return a pack of Git of these objects, with its checksum."""
    head = struct.pack(">II", 2, len(objects) if count is None else count)
    body = b"PACK" + head + b"".join(objects)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def packed_object(kind: int, size: int, body: bytes, base: bytes = b"") -> bytes:
    """Return an object of a pack; ``base`` is what a delta is about."""
    head, rest = (kind << 4) | (size & 15), size >> 4
    out = bytearray()
    while rest:
        out.append(head | 0x80)
        head, rest = rest & 0x7F, rest >> 7
    return bytes((*out, head)) + base + zlib.compress(body)


_BODIES: Final = st.one_of(
    st.sampled_from(
        (
            *(
                b"a: b\n",
                b"",
                b"100644 a\0" + bytes(20),
                b"40000 a\0" + bytes(20),
                b"160000 a\0" + bytes(20),
            ),
            *(
                b"120000 a\0" + bytes(20),
                b"100644 ../a\0" + bytes(20),
                b"100644 .git\0" + bytes(20),
            ),
            *(
                b"tree " + b"0" * 40 + b"\n\na",
                b"100644 a\0" + bytes(19),
                b"999999999 a\0" + bytes(20),
            ),
        )
    ),
    st.binary(max_size=60),
)


@st.composite
def packs(draw: DrawFn) -> bytes:
    """Return packs whose objects say what they are not, or are deltas of each other."""
    objects = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from((1, 2, 2, 3, 3, 4, 6, 7, 0, 5)))
        body = draw(deltas()) if kind in {6, 7} else draw(_BODIES)
        size = draw(st.one_of(st.just(len(body)), _SIZES))
        base = {
            6: draw(st.sampled_from((b"\x20", b"\x00", b"\xff\xff\x7f", b"\x01"))),
            7: draw(st.one_of(st.just(bytes(20)), st.binary(min_size=20, max_size=20))),
        }.get(kind, b"")
        objects.append(packed_object(kind, size, body, base))
    return packed(*objects, count=draw(st.sampled_from((None, None, None, 0, 9, 0xFFFFFFFF))))


_INSTRUCTIONS: Final = st.one_of(
    st.binary(min_size=1, max_size=1),
    st.sampled_from((b"\x90\x05", b"\xb0\xff\xff", b"\x91\x01\x02", b"\x03abc", b"\x80", b"\x00")),
    st.builds(
        lambda op, rest: op + rest, st.sampled_from((b"\xff", b"\x7f")), st.binary(max_size=7)
    ),
)


@st.composite
def deltas(draw: DrawFn) -> bytes:
    """Return deltas of Git: two sizes, then what is copied and inserted."""
    sizes = st.sampled_from((b"\xe8\x07", b"\x05", b"\x00", b"\xff" * 9 + b"\x01", b"\x80"))
    steps = draw(st.lists(_INSTRUCTIONS, max_size=12))
    return draw(sizes) + draw(sizes) + b"".join(steps) * draw(st.sampled_from((1, 1, 1, 500)))


def _tagged(tag: int, body: bytes, length: int | None) -> bytes:
    size = len(body) if length is None else length
    head = bytes((size,)) if size < 0x80 else b"\x84" + size.to_bytes(4)
    return bytes((tag,)) + head + body


_TAGS: Final = st.sampled_from(
    (0x02, 0x03, 0x04, 0x05, 0x06, 0x0C, 0x13, 0x17, 0x18, 0x30, 0x31, 0xA0)
)
_PRIMITIVES: Final = st.builds(
    _tagged,
    _TAGS,
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from((b"260101000000Z", b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", b"\xff" * 300)),
    ),
    st.sampled_from((None,) * 8 + (0, 0x7FFFFFFF, 5)),
)
DER: Final = st.recursive(
    _PRIMITIVES,
    lambda inner: st.builds(
        lambda tag, parts: _tagged(tag, b"".join(parts), None),
        st.sampled_from((0x30, 0x31, 0xA0, 0xA3, 0x04)),
        st.lists(inner, max_size=4),
    ),
    max_leaves=20,
)
