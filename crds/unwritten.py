"""The spec of an object that was written without one: every required field is empty, as in Go.

Flux's definitions do not require ``spec``, so clusters hold objects without it. They are decoded as
all others are, and nothing is done for them.
"""

import functools
from typing import Any, Final, TypeVar, cast

from msgspec import Struct, inspect

from crds import meta

T = TypeVar("T", bound=Struct)

_ZERO: Final = "0s"
"""The duration of a field that is empty."""


def spec(model: type[T]) -> T:
    """Return the struct with every required field empty."""
    return model(**{field.name: _empty(field.type) for field in _required(model)})


def missing(found: object) -> tuple[str, ...]:
    """Return the fields that must be written where nobody wrote a spec; else nothing."""
    if not isinstance(found, Struct) or not _required(type(found)) or found != _spec(type(found)):
        return ()
    return tuple(field.encode_name for field in _required(type(found)))


@functools.cache
def _spec(model: type[Struct]) -> Struct:
    return spec(model)


@functools.cache
def _required(model: type[Struct]) -> list[inspect.Field]:
    info = cast("inspect.StructType", inspect.type_info(model))
    return [field for field in info.fields if field.required]


def _empty(kind: inspect.Type) -> Any:
    match kind:
        case inspect.Metadata(type=inner):
            return _empty(inner)
        case inspect.StructType():
            return spec(kind.cls)
        case inspect.StrType(pattern=meta.DURATION):
            return _ZERO
        case inspect.StrType() | inspect.LiteralType():
            return ""
        case inspect.BoolType():
            return False
        case inspect.ListType():
            return []
        case _:
            raise TypeError(
                f"a required field of a spec is of a type that has no empty value: {kind}"
            )
