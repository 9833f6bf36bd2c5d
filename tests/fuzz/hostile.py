"""Bytes that parsers stumble over: bombs that are always the same, and damaged samples by seed."""

import base64
import random
import re
from collections.abc import Callable, Sequence

_OPENINGS = (b"[", b"{", b'{"a":', b"{a: ", b"- ", b"? ", b"(", b"<a>", b"!", b"-", b"a.b(", b"[[{")
_TOKENS = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"),
    *(b"\\ud800", b"\\u0000", b"&a ", b"*a", b"!!binary ", b"!!python/name:os ", b"<<: ", b"%TAG"),
    *(b"ENC[AES256_GCM,", b"]]>", b"<!DOCTYPE a [", b"&a;", b"{{", b"${a", b"-----BEGIN", b"\r\n"),
    *(b"1e999999", b"9" * 400, b"-0", b"NaN", b"\xe2\x80\xa8", b"\x1b[", b"/../", b"{1000}" * 8),
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80" * 9, b"\x30\x84\xff\xff"),
)
_PEM = re.compile(rb"(-----BEGIN [A-Z ]+-----\n(?:[A-Za-z-]+: .*\n)*\n?)([A-Za-z0-9+/=\n]+)(?=\n)")


def bombs() -> list[bytes]:
    """Return what is made to exhaust a stack, the memory or time; a mebibyte at most."""
    deep = [opening * n for opening in _OPENINGS for n in (30_000, (1 << 20) // len(opening))]
    nested = [
        b"a: " + b"[" * 30_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[" * 500 + b"]" * 500,
    ]
    aliases = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (new, new, b",".join([b"*%c" % old] * 9))
        for old, new in zip(b"abcdefghijkl", b"bcdefghijklm", strict=True)
    )
    tags = b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(50_000)) + b"---\na: b\n"
    entities = b'<!DOCTYPE a [<!ENTITY a "aaaa">' + b"".join(
        b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 9) for n in range(1, 20)
    )
    long = [
        piece * ((1 << 20) // len(piece)) for piece in (b"a", b"\n", b" ", b"a\n", b"a=b\n", b"'")
    ]
    odd = [
        b"",
        b"\x00" * 5_000,
        b"\xff" * 5_000,
        b"null",
        b"a: " + b"9" * 500_000,
        b"1" + b"0" * 500_000,
    ]
    return [*deep, *nested, aliases, tags, entities + b"]><a>&a19;</a>", *long, *odd]


def damaged(samples: Sequence[bytes], luck: random.Random) -> bytes:
    """Return a sample with a few things done to it, or within its armour."""
    data = luck.choice(samples)
    armour = _PEM.search(data)
    if armour and luck.random() < 0.6:
        body = re.sub(rb"\n=[A-Za-z0-9+/]{4}\Z", b"", armour[2].rstrip())
        inner = _hurt(base64.b64decode(body + b"==="), luck)
        wrapped = base64.encodebytes(inner).strip()
        return data[: armour.start(2)] + wrapped + data[armour.end(2) :]
    return _hurt(data, luck)


def _hurt(data: bytes, luck: random.Random) -> bytes:
    for _ in range(luck.choice((1, 1, 2, 4, 16))):
        data = luck.choice(_HURTS)(data, luck)[: 1 << 20]
    return data


def _flip(data: bytes, luck: random.Random) -> bytes:
    if not data:
        return data
    at = luck.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << luck.randrange(8),)) + data[at + 1 :]


def _byte(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + bytes((luck.choice((0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x0A)),)) + data[at + 1 :]


def _truncate(data: bytes, luck: random.Random) -> bytes:
    return data[: luck.randrange(len(data) + 1)]


def _remove(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + data[at + luck.randrange(1, 64) :]


def _repeat(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    piece = data[at : at + luck.randrange(1, 64)]
    return data[:at] + piece * luck.choice((2, 3, 50, 2_000)) + data[at:]


def _insert(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + luck.choice(_TOKENS) * luck.choice((1, 1, 2, 100)) + data[at:]


def _open(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + luck.choice(_OPENINGS) * luck.choice((10, 200, 2_000, 30_000)) + data[at:]


def _noise(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    return data[:at] + luck.randbytes(luck.randrange(1, 64)) + data[at:]


_HURTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flip, _flip, _byte, _byte, _truncate, _remove, _repeat, _insert, _insert, _open, _noise),
)
