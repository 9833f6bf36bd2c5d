"""Schemas are structural, and say what the structs say."""

import functools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import Meta, Struct, field

import crds
from crds import meta, schema
from crds.rules import Rule

MODELS = [kind.model for kind in crds.KINDS] + [
    old.model for kind in crds.KINDS for old in kind.older
]
UNSEEN = [
    model
    for kind in (crds.EXTERNAL_ARTIFACT, crds.ARTIFACT_GENERATOR, crds.PROVIDER, crds.ALERT)
    for model in (kind.model, *(old.model for old in kind.older))
    if "status" in model.__struct_fields__
]
"""Kinds whose status is empty until somebody writes it, as upstream."""


class Part(meta.ApiStruct, frozen=True, kw_only=True):
    """A part."""

    RULES: ClassVar[tuple[Rule, ...]] = (Rule("has(self.a)", "a is needed", field=".a"),)
    SCHEMA: ClassVar[meta.Extensions] = meta.ATOMIC

    a: str = ""
    """Text of a."""
    given: Annotated[str, Meta(max_length=3)] = "abc"
    implied: Annotated[str, Meta(extra_json_schema=meta.IMPLIED)] = "xyz"
    off: bool = False
    shown_off: Annotated[bool, Meta(extra_json_schema={"default": False})] = False
    free: meta.Json = None


class Thing(Struct, frozen=True, kw_only=True, rename="camel"):
    """A thing."""

    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: Part
    status: Part = field(default_factory=lambda: Part(a="new"))


@functools.cache
def annotated(model: type[Struct]) -> dict[str, Any]:
    return schema.annotated(model)


def part() -> dict[str, Any]:
    spec: dict[str, Any] = schema.annotated(Thing)["properties"]["spec"]
    return spec


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def test_only_defaults_that_mean_something_are_written_into_objects() -> None:
    defaults = {k: v["default"] for k, v in part()["properties"].items() if "default" in v}

    assert defaults == {"given": "abc", "shownOff": False}


def test_implied_defaults_are_told_to_readers_only() -> None:
    told = schema.annotated(Thing)["properties"]["spec"]["properties"]["implied"]

    assert told[meta.IMPLIED_DEFAULT] == "xyz"
    assert "implied-default" not in str(schema.without_implied(schema.annotated(Thing)))


def test_an_object_starts_with_the_status_that_its_struct_starts_with() -> None:
    assert schema.annotated(Thing)["properties"]["status"]["default"] == {"a": "new"}


def test_rules_and_keywords_of_a_struct_are_in_its_schema() -> None:
    assert part()["x-kubernetes-map-type"] == "atomic"
    assert part()["x-kubernetes-validations"] == [
        {
            "rule": "has(self.a)",
            "message": "a is needed",
            "fieldPath": ".a",
            "reason": "FieldValueInvalid",
        }
    ]


def test_the_text_below_an_attribute_is_its_description() -> None:
    assert part()["properties"]["a"]["description"] == "Text of a."


def test_what_no_structural_schema_can_say_is_refused() -> None:
    class Odd(Struct):
        either: int | str

    class Unknown(Struct):
        raw: bytes

    with pytest.raises(TypeError, match="no union"):
        schema.annotated(Odd)
    with pytest.raises(TypeError, match="no structural schema"):
        schema.annotated(Unknown)


@pytest.mark.parametrize("model", MODELS)
def test_every_node_has_a_type_or_is_open(model: type[Struct]) -> None:
    odd = [
        path
        for path, node in nodes(annotated(model))
        if ("type" in node) == ("x-kubernetes-preserve-unknown-fields" in node)
        or node.keys() & {"$ref", "anyOf", "oneOf", "allOf", "title"}
    ]

    assert odd == []


@pytest.mark.parametrize("model", MODELS)
def test_every_field_tells_an_operator_what_it_does(model: type[Struct]) -> None:
    silent = [
        path
        for path, node in nodes(annotated(model))
        if not path.endswith("[]") and path != ".metadata" and not node.get("description")
    ]

    assert silent == []


@pytest.mark.parametrize(
    "model", [m for m in MODELS if m not in UNSEEN and "status" in m.__struct_fields__]
)
def test_an_object_that_no_controller_has_seen_says_so(model: type[Struct]) -> None:
    status = annotated(model)["properties"]["status"]

    assert status["default"] == {"observedGeneration": -1}


@pytest.mark.parametrize("model", UNSEEN)
def test_a_kind_that_upstream_gives_no_status_has_none_from_the_start(
    model: type[Struct],
) -> None:
    assert "default" not in annotated(model)["properties"]["status"]
