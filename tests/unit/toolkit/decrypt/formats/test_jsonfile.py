"""JSON: 64-bit integers survive, and hostile documents do not get far."""

import math

import pytest

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import jsonfile
from toolkit.decrypt.tree import MAX_NODES, Branch, Comment, Timestamp


def test_integers_beyond_53_bits_are_exact() -> None:
    (document,) = jsonfile.load(b'{"a": 9007199254740993, "b": 9223372036854775808, "c": 1.0}')

    assert document.items == [("a", 9007199254740993), ("b", 9223372036854775808.0), ("c", 1.0)]


def test_half_a_surrogate_pair_cannot_pose_as_a_raw_byte() -> None:
    (document,) = jsonfile.load(rb'{"\udc80": "\udcff"}')

    assert document.items == [("\ufffd", "\ufffd")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", r"the file is not JSON \(line 1"),
        (b"[]", "is not an object"),
        (b"1", "is not an object"),
        (b'{"a": 1}x', r"the file is not JSON \(line 1"),
        (b'{"a": 1, "a": 2}', "a JSON key occurs twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "a JSON number is too large"),
        (b'{"a": ' + b"9" * 400 + b"}", "a JSON number is too large"),
        (b'{"a": "\xff"}', "the JSON is not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"a": ' + b"[" * 150 + b"]" * 150 + b"}", "nodes or"),
        (b'{"a":' * 150 + b"1" + b"}" * 150, "nodes or"),
    ],
)
def test_what_cannot_come_from_sops_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(DecryptionError, match=complaint):
        jsonfile.load(text)


@pytest.mark.parametrize(
    ("factor", "complaint"), [(1, f"{MAX_NODES} nodes or"), (6, f"{MAX_NODES} nodes$")]
)
def test_the_number_of_nodes_is_limited_before_parsing_and_after(
    factor: int, complaint: str
) -> None:
    with pytest.raises(DecryptionError, match=complaint):
        jsonfile.load(b'{"a": [' + b"1," * factor * MAX_NODES + b"1]}")


def test_it_is_written_as_sops_writes_it() -> None:
    documents = [
        Branch([(Comment("x"), None), ("a", ["<&>\u2028é", Comment("x"), Timestamp("t")])])
    ]

    assert jsonfile.dump(documents).decode() == (
        '{\n\t"a": [\n\t\t"\\u003c\\u0026\\u003e\\u2028é",\n\t\t"t"\n\t]\n}\n'
    )


def test_infinity_cannot_be_written() -> None:
    with pytest.raises(DecryptionError, match="infinite"):
        jsonfile.dump([Branch([("a", math.inf)])])


def test_bytes_that_are_not_utf_8_come_out_of_the_envelope_unchanged() -> None:
    assert jsonfile.dump_binary([Branch([("data", "\udc80\udcff")])]) == b"\x80\xff"


@pytest.mark.parametrize("document", [Branch([]), Branch([("data", 1)])])
def test_what_is_no_envelope_is_refused(document: Branch) -> None:
    with pytest.raises(DecryptionError, match="binary"):
        jsonfile.dump_binary([document])
