"""YAML is read as Helm's parser reads it, within bounds, and written so that all agree."""

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolkit.chart import document, limits
from toolkit.chart.document import DocumentError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("y", True),
        ("Off", False),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e400", "1e400"),
        ("123456789012345678", 123456789012345678),
        ("10000000000000000000000", 1e22),
        ("2001-01-01", "2001-01-01"),
        ("12:30:45", "12:30:45"),
        ("1:20", "1:20"),
        ("=", "="),
        ("~", None),
        ("", None),
        ('"12"', "12"),
        ("'yes'", "yes"),
        ("!!str 12", "12"),
        ("!!binary aGVsbG8=", "hello"),
        ("!custom foo", "foo"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_mean_what_they_mean_to_helm(text: str, value: object) -> None:
    found = document.load(f"key: {text}\n".encode())["key"]

    assert found == value
    assert type(found) is type(value)


def test_keys_become_strings() -> None:
    text = b"1: a\ny: b\n1.50: c\n1.5e10: d\n0.12345678: e\n0x10: f\n"

    assert document.load(text) == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "1.5e+10": "d",
        "0.12345678": "e",
        "16": "f",
    }


def test_merge_keys_fill_in_what_is_not_there() -> None:
    text = b"base: &base {a: 1, b: 2}\nused:\n  <<: *base\n  b: 3\n"

    assert document.load(text)["used"] == {"a": 1, "b": 3}


def test_of_equal_keys_the_last_counts() -> None:
    assert document.load(b"a: 1\na: 2\n") == {"a": 2}


def test_of_several_documents_the_first_counts() -> None:
    assert document.load(b"a: 1\n---\nb: 2\n") == {"a": 1}


def test_nothing_is_an_empty_mapping() -> None:
    assert document.load_mapping(b"# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"- a\n", "not a mapping"),
        (b"a: *gone\n", "no anchor before it"),
        (b"a: [b\n", "line 2"),
        (b"a: .inf\n", "cannot be a number in JSON"),
        (b"? [a]\n: 1\n", "cannot be a key"),
        (b"~: 1\n", "cannot be a key"),
        (b"a: &a\n  b: *a\n", "no anchor before it"),
        (b"\xff\xfe\xff", "."),
        (b"a: \x00\n", "."),
        (b"a: !!binary '%'\n", "base64"),
        (b"<<: 1\n", "takes a mapping"),
    ],
)
def test_what_helm_does_not_read_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        document.load_mapping(text)


def test_alias_bomb_is_refused_before_it_unfolds() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    with pytest.raises(DocumentError, match="more than 500000 nodes"):
        document.load("\n".join(lines).encode())


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DocumentError, match="100 levels"):
        document.load(b"a: " + b"[" * (limits.YAML_DEPTH + 5) + b"]" * (limits.YAML_DEPTH + 5))


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "y", "N", "~", "null", "", "1e3", "0o17", "0777", "1_000", "08", "1.10", ".5"),
        *("2001-01-01", "12:30", " a", "a: b", "a #b", "=", "<<", "*a", "- a", "{{ .Values.x }}"),
        *("é", "a\nb\n", "\ttab", "\x7f", "a" * 5000, "a " * 500 + "a"),
    ],
)
def test_what_is_written_is_read_as_the_same_string_by_everybody(text: str) -> None:
    written = document.dump({"key": text, text: 1})

    assert document.load(written) == {"key": text, text: 1}
    assert yaml.safe_load(written)["key"] == text


def test_what_is_written_does_not_depend_on_order() -> None:
    shared = {"x": [1, None, True, 0.5]}

    assert document.dump({"b": shared, "a": shared}) == document.dump({"a": shared, "b": shared})
    assert b"&" not in document.dump({"a": shared, "b": shared})


TEXT = st.characters(codec="utf-8", exclude_categories=["Cs"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(TEXT)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | FLOATS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(TEXT), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(TEXT), VALUES, max_size=5))
def test_any_values_are_read_as_they_were_written(value: dict[str, object]) -> None:
    assert document.load_mapping(document.dump(value)) == value


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DocumentError):
        document.load(data)


def test_every_document_is_read_with_the_line_that_it_begins_in() -> None:
    text = b"# first\na: &x 1\nb: *x\n---\n\nc: 2\n"

    assert document.load_all(text) == [(2, {"a": 1, "b": 1}), (6, {"c": 2})]


def test_an_anchor_ends_with_its_document() -> None:
    with pytest.raises(DocumentError, match="no anchor before it"):
        document.load_all(b"a: &x 1\n---\nb: *x\n")
