"""YAML: read without being taken in, written so that no reader is."""

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import yamlfile
from toolkit.decrypt.tree import MAX_NODES, Branch, Comment, Timestamp, Value

BOMB = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"

NASTY = [*"~=@`|%'\"\\", "yes", "0o17", "1_0", "1:30", "<<", "!x", "&x", "*x", "2001-12-14"]
NASTY += ["...\n", "---\n"]
NASTY += ["", " a", "a ", "- a", "a: b", "a #b", "? a", "\na", "a\n", "a\n\n", "a\nb\n", " a\nb\n"]
NASTY += ["\ta\n", "a\tb\n", "a\r\nb\n", "\u0085", "\ufeff", "# a\nb\n"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(NASTY)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
keys = texts.filter(lambda key: key != "<<")
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)


def branch(value: Any) -> Any:
    if isinstance(value, dict):
        return Branch([(key, branch(child)) for key, child in value.items()])
    return [branch(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(tree=st.dictionaries(keys, trees, min_size=1, max_size=4))
def test_a_yaml_1_1_reader_gets_the_data(tree: dict[str, Any]) -> None:
    written = yamlfile.dump([branch(tree)])

    assert repr(yaml.load(written, Loader=yaml.CSafeLoader)) == repr(tree)


@settings(max_examples=150, deadline=None)
@given(
    tree=st.dictionaries(
        texts,
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | texts,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
            max_leaves=10,
        ),
        max_size=4,
    )
)
def test_what_is_written_reads_as_go_reads_it(tree: dict[str, Any]) -> None:
    documents = [branch(tree)]

    assert repr(yamlfile.load(yamlfile.dump(documents))) == repr(documents)


def test_a_manifest_is_written_as_people_write_it() -> None:
    tree = {"apiVersion": "apps/v1", "metadata": {"name": "web-1"}, "on": "no", "text": "a\nb\n"}

    written = yamlfile.dump([branch(tree)])

    assert written.decode() == (
        'apiVersion: apps/v1\nmetadata:\n  name: web-1\n"on": "no"\ntext: |\n  a\n  b\n'
    )


def test_times_and_bytes_keep_their_kind() -> None:
    documents = [Branch([("t", Timestamp("2001-12-14T00:00:00Z")), ("b", "\udc80\udcff")])]

    written = yamlfile.dump(documents)

    assert written == b"t: 2001-12-14T00:00:00Z\nb: !!binary gP8=\n"
    assert yamlfile.load(written) == documents


def test_comments_are_not_written() -> None:
    items: list[Value] = [Comment("secret"), "a"]
    documents = [Branch([(Comment("secret"), None), ("list", items), ("none", [Comment("x")])])]

    assert yamlfile.dump(documents) == b"list:\n- a\nnone: []\n"


def test_a_merge_key_stays_one() -> None:
    assert yamlfile.dump([branch({"<<": {"a": "<<"}})]) == b'<<:\n  a: "<<"\n'


@pytest.mark.parametrize(
    ("number", "text"),
    [(1e22, "1.0e+22"), (1e-7, "1.0e-07"), (1.5, "1.5"), (1000.0, "1000.0"), (math.inf, ".inf")],
)
def test_a_float_looks_like_one_to_every_reader(number: float, text: str) -> None:
    assert yamlfile.dump([branch({"a": number})]) == f"a: {text}\n".encode()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (BOMB, "aliases"),
        (b"a: *b\n", "not YAML|aliases"),
        (b"a: 1\na: 2\n", "twice"),
        (b"1: a\n", "not a string"),
        (b"? [a]\n: b\n", "not a string"),
        (b"- a\n", "not a mapping"),
        (b"text\n", "not a mapping"),
        (b"a: [\n", "not YAML"),
        (b"a: \x01\n", "not YAML"),
        (b"a: !custom b\n", "tag"),
        (b"a: \xff\n", "not YAML"),
        (b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(50_000)) + b"---\na: b\n", "'%'"),
    ],
)
def test_what_cannot_come_from_sops_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(DecryptionError, match=complaint):
        yamlfile.load(text)


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- "])
def test_depth_is_limited(opening: bytes) -> None:
    with pytest.raises(DecryptionError, match="levels"):
        yamlfile.load(b"a:\n " + opening * 100_000)


def test_the_number_of_nodes_is_limited() -> None:
    with pytest.raises(DecryptionError, match="nodes"):
        yamlfile.load(b"a: [" + b"x," * MAX_NODES + b"x]\n")


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert yamlfile.load(b"---\n---\na: b\n") == [Branch([]), Branch([("a", "b")])]


def test_nothing_is_no_document() -> None:
    assert yamlfile.load(b"") == []
