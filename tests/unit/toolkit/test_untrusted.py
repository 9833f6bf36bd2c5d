"""YAML and JSON of strangers: read in bounds, or refused without a word of what was in them."""

from typing import Any

import msgspec
import pytest

from toolkit import untrusted
from toolkit.untrusted import Bounds, ExceededError, UntrustedError

BOMB = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (new, new, b", ".join([b"*%c" % old] * 9))
    for old, new in zip(b"abcdefgh", b"bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", None),
        (b"a: [1, yes, ~, 2001-01-01, 'no']\n", {"a": ["1", True, None, "2001-01-01", "no"]}),
        (b'{"a": {"b": "\\u00e9\\/\\n"}, "c": [[], {}]}', {"a": {"b": "é/\n"}, "c": [[], {}]}),
        (b"true: null\n'<<': {}\n", {"true": None, "<<": {}}),
        (b"\xef\xbb\xbf%YAML 1.1\n---\na: |\n  b\n", {"a": "b\n"}),
    ],
)
def test_plain_documents_are_read(text: bytes, value: object) -> None:
    assert untrusted.load_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a: " + b"[" * 30_000, r"32 levels \(line 1\)"),
        (b"a: " + b"{a: " * 30_000, r"32 levels"),
        (b"- " * 30_000, "32 levels"),
        (b"[" * 33 + b"]" * 33, "32 levels"),
        (b"? " * 30_000, "a key is not a scalar"),
        (BOMB, r"aliases are not supported \(line 1\)"),
        (b"a: *b\n", "aliases are not supported"),
        (b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(50_000)) + b"---\na: b\n", "'%'"),
        (b"a: !!python/object:os.system {}\n", "tags are not supported"),
        (b"!!str a: b\n", "tags are not supported"),
        (b"<<: {a: b}\n", "merge keys are not supported"),
        (b"a: 1\nb: 2\n'a': 3\n", r"a key occurs twice \(line 3\)"),
        (b"? [a]\n: b\n", "a key is not a scalar"),
        (b"a: b\n---\na: b\n", r"more than one document \(line 2\)"),
        (b"a: [b\n", r"it is not YAML \(line 2, column 1\)"),
        (b"a: \x00\n", "characters that YAML does not allow"),
        (b"a: \xff\n", "characters that YAML does not allow"),
        (b"a: \xed\xa0\x80\n", "characters that YAML does not allow"),
        ("a: b".encode("utf-16"), "it is not UTF-8"),
        (b"[" + b",".join([b"a"] * 20_001) + b"]", "20000 nodes"),
        (b"a" * ((1 << 20) + 1), "larger than 1048576 bytes"),
    ],
)
def test_anything_else_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(UntrustedError, match=complaint):
        untrusted.load_yaml(text)


@pytest.mark.parametrize(
    "text",
    [b"s3cret: [s3cret", b"a: *s3cret", b"a: !s3cret b", b"s3cret: 1\ns3cret: 1", b"@s3cret"],
)
def test_what_was_read_is_not_repeated(text: bytes) -> None:
    with pytest.raises(UntrustedError) as caught:
        untrusted.load_yaml(text)

    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_aliases_are_let_through_for_who_counts_them() -> None:
    found = untrusted.events(BOMB, Bounds(size=1000, depth=3, nodes=100), aliases=True)

    assert sum(1 for _ in found) > 90


def test_bounds_are_those_of_the_caller() -> None:
    with pytest.raises(ExceededError, match="3 nodes or 9 levels"):
        list(untrusted.events(b"[a, b, c]", Bounds(size=9, depth=9, nodes=3)))


def test_a_field_is_text_or_missing() -> None:
    assert untrusted.text({"a": "b"}, "a") == "b"
    assert untrusted.text({"a": None}, "a") == untrusted.text({}, "a") == ""
    with pytest.raises(UntrustedError, match="field 'a' is not a string"):
        untrusted.text({"a": ["s3cret"]}, "a")


class Sample(msgspec.Struct):
    """What some JSON should be."""

    name: str = ""
    words: dict[str, int] = {}


def test_json_is_read_as_a_type() -> None:
    assert untrusted.load_json(b'{"name": "a", "more": [1]}', Sample, size=99) == Sample(name="a")
    assert untrusted.load_json("[1]", list[int], size=99) == [1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b'{"more": ' + b"[" * 100_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "not the JSON that is needed"),
        (b'{"name": 1}', "needed: name: it must be text, and is a whole number: quote it"),
        (
            b'{"words": {"s3cret": "s3cret"}}',
            r"needed: words\[…\]: it must be a whole number, and is text",
        ),
        (b'{"name": "\xff"}', "it is not JSON"),
        (b'{"name": "\\ud800"}', "it is not JSON"),
        (b'{"s3cret', "it is not JSON"),
        (b"", "it is not JSON"),
        (b" " * 300_000, "larger than 262144 bytes"),
    ],
)
def test_json_that_is_anything_else_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(UntrustedError, match=complaint) as caught:
        untrusted.load_json(text, Sample, size=256 << 10)

    assert "s3cret" not in str(caught.value)


def test_untyped_json_is_bounded_too() -> None:
    with pytest.raises(ExceededError, match="nested too deeply"):
        untrusted.load_json(b"[" * 100_000, Any, size=1 << 20)
