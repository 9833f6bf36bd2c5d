"""From a struct to the structural schema of a CustomResourceDefinition.

The model library's own JSON Schema holds ``$ref``, ``anyOf`` with null and null defaults, none of
which a structural schema may hold (KEP-1150). So the types are walked here instead: every nested
struct is inlined, ``None`` means absent, and what a struct says beside its fields (``RULES``,
``SCHEMA``) becomes ``x-kubernetes-…`` keywords. Recursive types cannot be inlined; ``shallow`` is
for documents that may refer to other schemas.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, inspect

from crds import docstrings, meta, unwritten
from crds.rules import Rule

Schema: TypeAlias = dict[str, Any]
Nested: TypeAlias = Callable[[type[Struct]], Schema]
"""What stands for a struct inside another one."""

_API_VERSION: Final = "Version of the API that this object is written in, as `<group>/<version>`."
_KIND: Final = "Kind of the object."


def annotated(model: type[Struct]) -> Schema:
    """Return the ``openAPIV3Schema`` of a kind, whose struct has metadata, spec and status.

    Implied defaults stand beside it, under a keyword for documentation only.
    """
    schema = _inlined(model)
    schema["properties"] |= {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"type": "object"},
    }
    return schema


def shallow(model: type[Struct], nested: Nested) -> Schema:
    """Return the schema of one struct, with ``nested`` for each struct in it."""
    return without_implied(_struct(_struct_type(model), nested))


def without_implied(schema: Schema) -> Schema:
    """Return the schema as API servers take it: without what is for documentation only."""
    bare: Schema = _bare(schema)
    return bare


def _bare(node: Any) -> Any:
    match node:
        case dict():
            return {k: _bare(v) for k, v in node.items() if k != meta.IMPLIED_DEFAULT}
        case list():
            return [_bare(each) for each in node]
        case _:
            return node


def _struct_type(model: type[Struct]) -> inspect.StructType:
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model} is not a struct")
    return info


def _inlined(model: type[Struct]) -> Schema:
    return _struct(_struct_type(model), _inlined)


def _struct(info: inspect.StructType, nested: Nested) -> Schema:
    docs = docstrings.field_docs(info.cls)
    schema: Schema = {
        "type": "object",
        "description": docstrings.class_doc(info.cls),
        "properties": {
            field.encode_name: _property(field, docs.get(field.name, ""), nested)
            for field in info.fields
        },
    }
    required = sorted(field.encode_name for field in info.fields if field.required)
    if required:
        schema["required"] = required
    if issubclass(info.cls, meta.ApiStruct):
        schema |= info.cls.SCHEMA
        if info.cls.RULES:
            schema["x-kubernetes-validations"] = [_rule(rule) for rule in info.cls.RULES]
    return schema


def _rule(rule: Rule) -> Schema:
    entry = {"rule": rule.expression, "message": rule.message, "reason": rule.reason}
    return entry | ({"fieldPath": rule.field} if rule.field else {})


def _property(field: inspect.Field, description: str, nested: Nested) -> Schema:
    schema = _schema(field.type, nested)
    if description:
        schema["description"] = description
    if default := _default(field):
        schema[meta.IMPLIED_DEFAULT if meta.IMPLIED_DEFAULT in schema else "default"] = default
    return schema


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    if field.default in (msgspec.NODEFAULT, msgspec.UNSET) or unwritten.missing(field.default):
        return None
    return msgspec.to_builtins(field.default)


def _schema(info: inspect.Type, nested: Nested) -> Schema:
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return _schema(inner, nested) | (extra or {})
        case inspect.UnionType(types=types):
            return _optional(info, types, nested)
        case inspect.StructType():
            return nested(info.cls)
        case inspect.ListType(item_type=item):
            bounds = {"minItems": info.min_length, "maxItems": info.max_length}
            return {"type": "array", "items": _schema(item, nested)} | _given(bounds)
        case inspect.DictType(value_type=value):
            bounds = {"minProperties": info.min_length, "maxProperties": info.max_length}
            return {"type": "object", "additionalProperties": _schema(value, nested)} | _given(
                bounds
            )
        case _:
            return _scalar(info)


def _optional(info: inspect.Type, types: tuple[inspect.Type, ...], nested: Nested) -> Schema:
    present = [each for each in types if not isinstance(each, inspect.NoneType)]
    if len(present) != 1:
        raise TypeError(f"a structural schema has no union: {info}")
    return _schema(present[0], nested)


def _scalar(info: inspect.Type) -> Schema:
    match info:
        case inspect.StrType():
            bounds = {
                "pattern": info.pattern,
                "minLength": info.min_length,
                "maxLength": info.max_length,
            }
            return {"type": "string"} | _given(bounds)
        case inspect.IntType():
            return {"type": "integer"} | _given({"minimum": info.ge, "maximum": info.le})
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.LiteralType(values=values):
            return {"type": "string", "enum": list(values)}
        case inspect.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case _:
            raise TypeError(f"no structural schema for {info}")


def _given(bounds: Schema) -> Schema:
    return {key: value for key, value in bounds.items() if value is not None}
