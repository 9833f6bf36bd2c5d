"""Values are composed in order, and what cannot be composed names the object and nothing of it."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from crds.helm_parts import ValuesReference
from toolkit.release import values
from toolkit.release.values import ValuesError

Json = dict[str, Any]


def reference(kind: str = "ConfigMap", name: str = "c", **fields: Any) -> ValuesReference:
    return msgspec.convert({"kind": kind, "name": name, **fields}, ValuesReference)


def read(data: bytes) -> Mapping[str, Any]:
    """Read JSON, which is YAML; another document is told without its text."""
    try:
        found = json.loads(data)
    except ValueError as exc:
        raise ValueError("it is not YAML (line 1, column 1)") from exc
    return dict(found)


def composed(*references: ValuesReference, inline: Any = None, **data: str) -> Json:
    fetched: dict[tuple[str, str], Mapping[str, bytes] | None] = {
        (each.kind, each.name): {"values.yaml": data[each.name].encode()}
        if each.name in data
        else None
        for each in references
    }
    return values.compose(references, inline, fetched, read, namespace="team").values


def refused(*references: ValuesReference, inline: Any = None, **data: str) -> str:
    with pytest.raises(ValuesError) as caught:
        composed(*references, inline=inline, **data)
    assert caught.value.reason == "ValuesError"
    return str(caught.value)


def test_later_references_win_and_inline_values_are_last() -> None:
    found = composed(
        reference(name="a"),
        reference("Secret", "b"),
        inline={"z": {"inline": 1}},
        a='{"x": 1, "z": {"a": 1, "both": "a"}}',
        b='{"x": 2, "z": {"both": "b", "inline": 0}}',
    )

    assert found == {"x": 2, "z": {"a": 1, "both": "b", "inline": 1}}


def test_a_value_that_is_no_object_replaces_one_and_null_is_a_value() -> None:
    found = composed(reference(name="a"), inline={"x": None, "l": [2]}, a='{"x": {}, "l": [1]}')

    assert found == {"x": None, "l": [2]}


def test_a_key_is_set_at_a_path() -> None:
    found = composed(reference(name="a", targetPath="image.tag"), inline={"image": {}}, a="v1")

    assert found == {"image": {"tag": "v1"}}


def test_a_path_wins_over_inline_values_beside_it_and_loses_at_the_root() -> None:
    nested = reference(name="a", targetPath="image.tag")
    root = reference(name="a", targetPath="tag")

    assert composed(nested, inline={"image": {"tag": "old"}}, a="v1") == {"image": {"tag": "v1"}}
    assert composed(root, inline={"tag": "old"}, a="v1") == {"tag": "old"}
    # Flux merges the inline object into another one first; then the last merge restores its value.
    assert composed(
        reference(name="b"), nested, inline={"image": {"tag": "old"}}, a="v1", b='{"image": {}}'
    ) == {"image": {"tag": "old"}}


def test_composing_changes_nothing_that_it_was_given() -> None:
    inline = {"image": {"tag": "old"}}

    composed(reference(name="a", targetPath="image.tag"), inline=inline, a="v1")

    assert inline == {"image": {"tag": "old"}}


@pytest.mark.parametrize(
    ("literal", "expected"), [(False, ["a", 1]), (True, "{a,1}")], ids=["typed", "literal"]
)
def test_a_literal_is_taken_as_it_is(*, literal: bool, expected: object) -> None:
    found = composed(reference(name="a", targetPath="x", literal=literal), a="{a,1}")

    assert found == {"x": expected}


def test_a_large_number_of_a_document_is_the_one_that_helm_reads() -> None:
    found = composed(reference(name="a"), inline={"i": 2**53 + 1}, a='{"d": 9007199254740993}')

    assert found == {"d": float(2**53), "i": float(2**53)}


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1" * 400])
def test_a_number_that_no_json_can_hold_is_refused(number: str) -> None:
    told = refused(reference(name="a"), a=f'{{"x": [{number}]}}')

    assert "'team/a' with key 'values.yaml': a number" in told
    assert "quote it" in told


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_missing_object_is_named(kind: str) -> None:
    assert refused(reference(kind, "gone")) == (
        f"could not resolve {kind} chart values reference 'team/gone' with key 'values.yaml': "
        f'{kind.lower()}s "gone" not found: create it, or correct spec.valuesFrom'
    )


def test_a_missing_key_is_named() -> None:
    assert refused(reference("Secret", "a", valuesKey="b.yaml"), a="{}") == (
        "could not resolve Secret chart values reference 'team/a' with key 'b.yaml': key not "
        "found: add it, or correct valuesKey"
    )


def test_what_is_optional_is_passed_over_and_told() -> None:
    references = (
        reference(name="gone", optional=True),
        reference(name="a", valuesKey="b.yaml", optional=True),
    )
    fetched = {("ConfigMap", "gone"): None, ("ConfigMap", "a"): {"values.yaml": b"{}"}}

    found = values.compose(references, {"x": 1}, fetched, read, namespace="team")

    assert found.values == {"x": 1}
    lead = "could not resolve optional ConfigMap chart values reference"
    assert found.missing == (
        f"{lead} 'team/gone' with key 'values.yaml': configmaps \"gone\" not found",
        f"{lead} 'team/a' with key 'b.yaml': key not found",
    )


def test_an_optional_object_that_cannot_be_read_is_refused() -> None:
    assert "it is not YAML" in refused(reference(name="a", optional=True), a="s3cret: [")


@pytest.mark.parametrize(
    ("fields", "content"),
    [({}, "s3cret"), ({"targetPath": "x"}, "1,s3cret"), ({"targetPath": "x.y"}, "s3cret")],
)
def test_no_value_is_told(fields: Json, content: str) -> None:
    told = refused(reference("Secret", "a", **fields), inline={"x": "s3cret"}, a=content)

    assert "'team/a' with key 'values.yaml'" in told
    assert "s3cret" not in told


def test_bytes_that_are_no_text_are_refused() -> None:
    fetched = {("Secret", "a"): {"values.yaml": b"\xff"}}
    secret = reference("Secret", "a", targetPath="x")

    with pytest.raises(ValuesError, match="it is not UTF-8"):
        values.compose([secret], None, fetched, read, namespace="team")


def test_values_are_bounded_in_size_and_depth() -> None:
    text = "x" * (values.MOST_BYTES // 2)
    many = [reference(name=name) for name in ("a", "b", "c")]
    data = {name: json.dumps({name: text}) for name in ("a", "b", "c")}
    deep: Json = {}
    for _ in range(values.MOST_LEVELS + 1):
        deep = {"x": deep}

    assert "bytes as JSON, more than" in refused(*many, **data)
    assert refused(inline=deep) == (
        "spec.values: the values have more than 100 levels: nest them less"
    )


def test_values_are_not_merged_too_often() -> None:
    """Each targetPath merges all inline values once more: 256 times a megabyte took 10 s."""
    references = [reference(name="a", targetPath=f"set.k{index}") for index in range(200)]
    inline = {"own": {f"k{index}": index for index in range(5_000)}}

    told = refused(*references, inline=inline, a="x")

    assert "5001 fields, too many to set 200 values with targetPath" in told
    assert composed(*references[:100], inline=inline, a="x")["set"]["k99"] == "x"
