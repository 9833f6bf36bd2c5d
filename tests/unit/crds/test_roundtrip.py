"""No version of a kind may lose a field between the wire and the model."""

import functools
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, inspect

import crds
from crds import meta, schema

MODELS = {
    f"{kind.group}/{version} {kind.kind}": (kind, version, model)
    for kind in crds.KINDS
    for version, model in [
        (kind.version, kind.model),
        *((old.version, old.model) for old in kind.older),
    ]
}
EXAMPLES = (
    *("1h30m", "90s", "ssh://git@example.com/repo", "oci://example.com/repo", "http://example.com"),
    *("sha256:0", "name", "@alias", "@artifact/path", "0123456789" * 4, "ghcr.io/acme/*"),
)


@pytest.mark.parametrize("model", [m for _, _, m in MODELS.values()], ids=MODELS)
# Each field is looked at below, once; here it is about values that nobody thinks of.
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same(model: type[Struct], data: st.DataObject) -> None:
    document = data.draw(documents_of(model))
    value = msgspec.convert(document, model)

    assert msgspec.json.decode(msgspec.json.encode(value), type=model) == value


@pytest.mark.parametrize("model", [m for _, _, m in MODELS.values()], ids=MODELS)
def test_every_field_of_the_schema_is_kept_by_the_model(model: type[Struct]) -> None:
    written = annotated(model)["properties"]
    parts = [part for part in ("spec", "status") if part in written]
    full = {part: example(written[part], implied(model, part)) for part in parts}

    kept = msgspec.to_builtins(msgspec.convert(full, model))

    assert {part: kept[part] for part in parts} == full


def implied(model: type[Struct], part: str) -> dict[str, Any]:
    """Return the schema that also tells the defaults which the server does not write."""
    found: dict[str, Any] = annotated(model)["properties"][part]
    return found


@functools.cache
def annotated(model: type[Struct]) -> dict[str, Any]:
    return schema.annotated(model)


def example(written: dict[str, Any], full: dict[str, Any]) -> Any:
    """Return a value with every property set, none of them to its default."""
    match written:
        case {"properties": properties}:
            return {
                name: example(inner, full["properties"][name])
                for name, inner in properties.items()
                if inner.get("enum") != [inner.get("default")]  # it has no other value
            }
        case {"additionalProperties": inner}:
            return {"key": example(inner, full["additionalProperties"])}
        case {"items": items}:
            return [example(items, full["items"])]
        case {"enum": values}:
            default = written.get("default", full.get(meta.IMPLIED_DEFAULT))
            return next(value for value in values if value != default)
        case {"pattern": pattern}:
            return next(text for text in EXAMPLES if re.search(pattern, text))
        case _:
            flag = not written.get("default", False)
            return {"string": "A", "boolean": flag, "integer": 7}.get(written.get("type", ""), [1])


@functools.cache
def documents_of(model: type[Struct]) -> st.SearchStrategy[Any]:
    """Return random documents of a kind; to make the strategy takes longer than to draw.

    All have a spec: the one that stands in where nobody wrote one is never encoded.
    """
    whole = documents(inspect.type_info(model))
    return whole.filter(lambda document: "spec" in document)


def documents(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Return random JSON values of a type."""
    match info:
        case inspect.Metadata(type=inner):
            return documents(inner)
        case inspect.StructType(fields=fields):
            return st.fixed_dictionaries(
                {f.encode_name: documents(f.type) for f in fields if f.required},
                optional={f.encode_name: documents(f.type) for f in fields if not f.required},
            )
        case inspect.UnionType(types=types):
            return st.one_of([documents(each) for each in types])
        case inspect.ListType(item_type=item):
            least = info.min_length or 0
            return st.lists(documents(item), min_size=least, max_size=least + 2)
        case inspect.DictType(value_type=value):
            return st.dictionaries(st.text(max_size=4), documents(value), max_size=2)
        case _:
            return scalars(info)


def scalars(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.StrType(pattern=str(pattern)):
            longest = info.max_length or 250
            return st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= longest)
        case inspect.StrType():
            return st.text(min_size=info.min_length or 0, max_size=8)
        case inspect.IntType():
            return st.integers(min_value=info.ge, max_value=2**53)
        case _:
            return {inspect.BoolType: st.booleans(), inspect.NoneType: st.none()}.get(
                type(info), JSON
            )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
