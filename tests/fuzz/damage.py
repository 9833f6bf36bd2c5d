"""Bytes that are nearly what a reader takes: samples with changes, or changes in their armour."""

import base64
import re
from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

_MOST: Final = 1 << 20
_TOKENS: Final = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"),
    *(b"\\ud800", b"\\u0000", b"&a ", b"*a", b"!!binary ", b"!!python/name:os ", b"<<: ", b"%TAG"),
    *(b"ENC[AES256_GCM,", b"]]>", b"<!DOCTYPE a [", b"&a;", b"{{", b"${a", b"-----BEGIN", b"\r\n"),
    *(b"1e999999", b"9" * 400, b"-0", b"NaN", b"\xe2\x80\xa8", b"\x1b[", b"/../", b"{1000}" * 8),
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80" * 9, b"\x30\x84\xff\xff"),
    *(b"\x01", b"\x7f", b"\x80", b" ", b"\n", b"\x85", b"\t"),
)
OPENINGS: Final = (
    *(b"[", b"{", b'{"a":', b"{a: ", b"- ", b"? ", b"(", b"<a>", b"!", b"-", b"a.b(", b"[[{"),
)
_PEM: Final = re.compile(
    rb"(-----BEGIN [A-Z ]+-----\n(?:[A-Za-z-]+: .*\n)*\n?)([A-Za-z0-9+/=\n]+)(?=\n)"
)


def damaged(whole: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Return what ``whole`` yields with a few things done to it."""
    return _damaged(whole)


@st.composite
def _damaged(draw: DrawFn, whole: SearchStrategy[bytes]) -> bytes:
    data = draw(whole)
    armour = _PEM.search(data)
    if armour and draw(st.booleans()):
        body = re.sub(rb"\n=[A-Za-z0-9+/]{4}\Z", b"", armour[2].rstrip())
        inner = base64.encodebytes(_hurt(draw, base64.b64decode(body + b"==="))).strip()
        return data[: armour.start(2)] + inner + data[armour.end(2) :]
    return _hurt(draw, data)


def _hurt(draw: DrawFn, data: bytes) -> bytes:
    for act, place, insertion in draw(_HURTS):
        at = place % (len(data) + 1)
        cut, doubled = _ACTS[act]
        piece = data[at : at + cut] * doubled
        data = (data[:at] + piece + insertion + data[at + cut :])[:_MOST]
    return data


_ACTS: Final = (
    # How many bytes are taken away there, and how often they come back.
    *((0, 0), (0, 0), (1, 0), (1, 0), (9, 0), (63, 0), (_MOST, 0)),
    *((1, 3), (9, 3), (30, 50), (60, 2_000)),
)
_INSERTIONS: Final = st.one_of(
    st.just(b""),
    st.sampled_from(_TOKENS),
    st.binary(max_size=8),
    st.builds(lambda piece, n: piece * n, st.sampled_from(_TOKENS), st.sampled_from((2, 100))),
    st.builds(
        lambda piece, n: piece * n,
        st.sampled_from(OPENINGS),
        st.sampled_from((10, 200, 2_000, 30_000)),
    ),
)
_HURTS: Final[SearchStrategy[Sequence[tuple[int, int, bytes]]]] = st.lists(
    st.tuples(st.integers(0, len(_ACTS) - 1), st.integers(0, 0xFFFF), _INSERTIONS),
    min_size=1,
    max_size=8,
)
