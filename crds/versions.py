"""The schema that each version of a kind is served with.

A model tells what a version had when it was the newest. What is served is wider: **no version lacks
a field that another has**, so that reading and writing an object in any of them loses nothing, and
paths in ``managedFields`` mean the same in all of them. That is also how Kubernetes adds fields to
its own APIs. Fields of the newest version are in the old ones as they are in the newest; fields
that only an old one had are kept in the newest, optional and without a default.

What users of the newest version may write is otherwise as strict as its model. An old version takes
whatever the newest takes besides what it took itself, because an object may be read in one version
and written back in another.
"""

from typing import Any, Final

from msgspec import Struct

from crds import meta, schema
from crds.kind import Kind, OldVersion
from crds.schema import Schema

_BOUNDS: Final = (
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
)
_DEFAULTS: Final = ("default", meta.IMPLIED_DEFAULT)
_RULES: Final = "x-kubernetes-validations"


def newest(kind: Kind[Struct]) -> Schema:
    """Return the schema of the stored version, with implied defaults beside it."""
    found = schema.annotated(kind.model)
    for old in kind.older:
        found = _keeping(found, schema.annotated(old.model), old.version)
    return found


def older(kind: Kind[Struct], old: OldVersion) -> Schema:
    """Return the schema of an old version, with implied defaults beside it."""
    return _widened(schema.annotated(old.model), newest(kind))


def _keeping(new: Schema, old: Schema, version: str) -> Schema:
    """Add the fields that only ``old`` has."""
    if "items" in new:
        return new | {"items": _keeping(new["items"], old.get("items", {}), version)}
    if "properties" not in new:
        return new
    before = old.get("properties", {})
    properties = {
        name: _keeping(field, before.get(name, {}), version)
        for name, field in new["properties"].items()
    }
    for name, field in before.items():
        if name not in properties:
            properties[name] = _kept(field, version)
    return new | {"properties": properties}


def _kept(field: Schema, version: str) -> Schema:
    bare = {key: value for key, value in field.items() if key not in _DEFAULTS}
    return bare | {"description": f"{field.get('description', '')} Kept for {version}.".lstrip()}


def _widened(old: Schema, new: Schema) -> Schema:
    """Let ``old`` hold all that ``new`` holds."""
    if old.get("type") != new.get("type"):
        raise TypeError(f"a field has another type in an old version: {old} instead of {new}")
    narrow = (*_BOUNDS, _RULES, "enum", "required")
    wide = {key: value for key, value in (new | old).items() if key not in narrow}
    wide |= {key: old[key] for key in _BOUNDS if key in old and old[key] == new.get(key)}
    if "enum" in old and "enum" in new:
        wide["enum"] = list(dict.fromkeys([*old["enum"], *new["enum"]]))
    if rules := _rules(old, new):
        wide[_RULES] = rules
    if any(key in old for key in _DEFAULTS):
        wide = {k: v for k, v in wide.items() if k not in _DEFAULTS or k in old}
    return wide | _children(old, new)


def _rules(old: Schema, new: Schema) -> list[Schema]:
    """Return the old version's rules, and those of the newest for fields that came later.

    A field that was required may not be so by itself any more; then a rule says when it is.
    """
    own = old.get(_RULES, [])
    optional = old.get("properties", {}).keys() - {*old.get("required", ())}
    had = {f".{name}" for name in optional}
    later = [each for each in new.get(_RULES, []) if each.get("fieldPath") not in had]
    return [*own, *(each for each in later if each not in own)]


def _children(old: Schema, new: Schema) -> Schema:
    if "properties" in old:
        return _fields(old, new)
    return {
        key: _widened(old[key], new[key]) for key in ("items", "additionalProperties") if key in old
    }


def _fields(old: Schema, new: Schema) -> dict[str, Any]:
    before, after = old["properties"], new["properties"]
    properties = {
        name: _widened(before[name], field) if name in before else field
        for name, field in after.items()
    }
    required = sorted({*old.get("required", ())} & {*new.get("required", ())})
    return {"properties": properties} | ({"required": required} if required else {})
