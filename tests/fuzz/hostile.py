"""Bytes that parsers stumble over: bombs and worst inputs, which are always the same."""

import base64
from collections.abc import Iterator
from itertools import product

from tests.fuzz.damage import OPENINGS


def bombs(size: int) -> list[bytes]:
    """Return what is made to exhaust a stack, the memory or time, of some ``size`` bytes."""
    deep = [opening * n for opening in OPENINGS for n in (30_000, size // len(opening))]
    nested = [
        b"a: " + b"[" * 30_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[" * 500 + b"]" * 500,
    ]
    aliases = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (new, new, b",".join([b"*%c" % old] * 9))
        for old, new in zip(b"abcdefghijkl", b"bcdefghijklm", strict=True)
    )
    tags = b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(size // 20)) + b"---\na: b\n"
    entities = b'<!DOCTYPE a [<!ENTITY a "aaaa">' + b"".join(
        b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 9) for n in range(1, 20)
    )
    long = [piece * (size // len(piece)) for piece in (b"a", b"\n", b" ", b"a\n", b"a=b\n", b"'")]
    odd = [
        b"",
        b"\x00" * 5_000,
        b"\xff" * 5_000,
        b"null",
        b"a: " + b"9" * (size // 2),
        b"1" + b"0" * (size // 2),
    ]
    return [*deep, *nested, aliases, tags, entities + b"]><a>&a19;</a>", *long, *odd]


def yaml(size: int) -> Iterator[bytes]:
    """Yield YAML of nearly ``size`` bytes that takes a reader longest, and some that is longer."""
    room = size - 64
    for opening, closing in ((b"[", b"]"), (b"{a: ", b"}"), (b"- ", b""), (b"? ", b"")):
        count = room // (len(opening) + len(closing))
        yield opening * count + closing * count
    yield b"".join(b"k%07d: v\n" % n for n in range(room // 12))
    yield b"a: [" + b"x," * (room // 2) + b"]"
    yield b"a: '" + b"x" * room + b"'\n"
    yield b'a: "' + b"\\u0041" * (room // 6) + b'"\n'
    yield b"a: |\n" + b"  x\n" * (room // 4)
    yield b"a: >\n" + b"  x\n\n" * (room // 5)
    yield b"- &a [" + b"x," * 9_000 + b"]\n" + b"- *a\n" * ((room - 18_010) // 5)
    yield b"#" * room + b"\na: b\n"
    yield b"--- a\n" * (room // 6)
    yield b"? " + b"a" * room + b"\n: b\n"
    yield from json(size)


def json(size: int) -> Iterator[bytes]:
    """Yield JSON of nearly ``size`` bytes, and some that is longer."""
    room = size - 64
    yield b'{"a":' * (room // 6) + b"1" + b"}" * (room // 6)
    yield b"[" + b"[]," * (room // 3) + b"[]]"
    yield b"{" + b",".join(b'"k%07d":0' % n for n in range(room // 13)) + b"}"
    yield b'{"a": ' + b"9" * min(room, 500_000) + b"}"
    yield b'{"a": ' + b"9" * 5_000 + b", " + b'"b": 1e' + b"9" * 5_000 + b"}"
    yield b'{"a": "' + b"\\ud800" * (room // 6) + b'"}'
    yield b'{"a": "' + b"\\u0000" * (room // 6) + b'"}'
    yield b'{"a": "\xff\xfe", "b": "\xed\xa0\x80"}'
    yield b" " * room + b"{}"
    yield b'{"a": "' + b"x" * (2 * size) + b'"}'


def lines(size: int) -> Iterator[bytes]:
    """Yield text of nearly ``size`` bytes in many lines, or in one."""
    yield from (b"a=b\n" * (size // 4 - 4), b"[a]\n" * (size // 4 - 4), b"\n" * (size - 4))
    yield from (b"a" * (size - 4), b"a=" + b"\\n" * (size // 2 - 4), b"=" * (size - 4))
    yield from (b"a b " * (size // 4 - 4), b"\r" * (size - 4))
    yield b"\x85\xe2\x80\xa8" * (size // 4 - 4)


def der(size: int) -> Iterator[bytes]:
    """Yield DER: deep, wide, of impossible lengths, and with integers of ``size`` bytes."""
    deep = b""
    while len(deep) < min(size, 60_000):
        length = len(deep)
        deep = b"\x30\x83" + length.to_bytes(3) + deep
    yield deep
    yield b"\x30\x80" * (size // 2)
    yield b"\x30\x84\xff\xff\xff\xff" + b"\x02\x01\x00" * (size // 3)
    wide = b"\x02\x01\x00" * (size // 3)
    yield b"\x30\x83" + min(len(wide), 0xFFFFFF).to_bytes(3) + wide
    number = b"\x02\x83" + (size - 16).to_bytes(3) + b"\x7f" * (size - 16)
    yield b"\x30\x83" + len(number).to_bytes(3) + number
    yield b"\x06\x83" + (size - 16).to_bytes(3) + b"\xff" * (size - 16)


def pem(size: int) -> Iterator[bytes]:
    """Yield PEM and armour: hostile DER, many small blocks, one without an end, long headers."""
    for kind in ("CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "PUBLIC KEY"):
        begin, end = f"-----BEGIN {kind}-----\n".encode(), f"-----END {kind}-----\n".encode()
        for inner in der(size * 3 // 5):
            yield begin + base64.encodebytes(inner) + end
        yield (begin + b"MAA=\n" + end) * (size // (len(begin) + len(end) + 5))
        yield begin + b"A" * size
    yield b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEA" * (size // 20)
    yield from armour(size)


def armour(size: int) -> Iterator[bytes]:
    """Yield armour of OpenPGP: long headers, and packets that announce too much."""
    for kind in (b"PGP SIGNATURE", b"PGP PUBLIC KEY BLOCK", b"PGP PRIVATE KEY BLOCK"):
        begin, end = b"-----BEGIN %s-----\n" % kind, b"-----END %s-----\n" % kind
        yield begin + b"Comment: a\n" * (size // 11) + b"\n" + end
        for packet in (b"\xc8\xff\xff\xff\xff\xff", b"\xa3\x01", b"\xcb\xe1a", b"\xc2\x02\x04\x00"):
            yield begin + b"\n" + base64.encodebytes(packet * (size // 2 // len(packet))) + end


_DATES = (
    *("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "2026-11-27T05:00:00", "2026-W01-1"),
    *("0000-00-00T00:00:00", "2026-11-27", "Mon, 01 Jan 0001 00:00:00", "31 Dec 9999 23:59:59"),
    *("99999999999999-01-01", "01 Jan 99999999999999 00:00:00", "1" * 5_000, "", "T", "\0"),
    *("Mon, ", "\uff12\uff10\uff12\uff16-11-27T05:00:00"),
)
_ZONES = ("", "Z", "+23:59", "-23:59", " +2359", " -2359", " GMT", " +" + "9" * 80, "-24:00", "zT")


def times() -> Iterator[bytes]:
    """Yield texts that are nearly a time, or one at the edge of what there is."""
    for date, zone in product(_DATES, _ZONES):
        yield (date + zone).encode()


_SCHEMES = ("http", "https", "oci", "ssh", "nats", "file", "azblob", "HTTPS", "")
_PLACES = (
    *("[", "]", "[::1", "@][@", "a@b@c", "a:99999999", "a:+1", "a:0", "a:", ":80", "%5b", "a%00b"),
    *("\u2100", "a\ufe55b", "[v1.x]", "[::ffff:1.2.3.4]", "[fe80::1%25eth0]", "xn--", "a\\b"),
    *("9" * 5_000, "a:" + "9" * 5_000, "0x7f.1", "a b", "\0", "a\n.b", "a" * 9_000),
    *("\u0661\u0666\u0669.\u0662", "\u00e9x", "a]:1", "a[b"),
    *("." * 5_000, "-", "_", "u:p@a", "u%40:p@a:1", "[1:2:3:4:5:6:7:8:9]", "[::1]x:1"),
)
_PATHS = ("", "/..;/a", "/%2e%2e/a", "/" * 5_000, "/a?b#c", "/%", "/\ufffd", "/a:b/c@d:e", "//x/[y")


def urls() -> Iterator[bytes]:
    """Yield texts that are nearly a URL, as far as one library or another sees it."""
    for number, place in enumerate(_PLACES):
        scheme = _SCHEMES[number % len(_SCHEMES)]
        yield f"{scheme}://{place}{_PATHS[len(place) % len(_PATHS)]}".encode()
        yield f"https://{place}{_PATHS[number % len(_PATHS)]}".encode()
    for scheme, path in product(_SCHEMES, _PATHS):
        yield f"{scheme}://a{path}".encode()
    for place in _PLACES:
        yield f"{place}/a".encode()


def lists(size: int) -> Iterator[bytes]:
    """Yield short words that are repeated, as in versions, ranges, selectors and paths."""
    words = ("1.", "1", "v", "0", "-", "+", "*", ">=1 ", "||", ",", "x.", "a=b,", "a in (b),")
    for word in (*words, "!a,", ")", "/", "../", ":", "@", "refs/heads/", "~", "^", " ", "%", "("):
        yield (word * (size // len(word))).encode()
        yield ("1.2.3" + word * 2_000).encode()
        yield ("1.2.3-" + word * 2_000 + ".1").encode()
    yield ("9" * 5_000 + ".0.0").encode()
    yield (">=" + "9" * 5_000).encode()
