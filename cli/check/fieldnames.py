"""Fields that a kind does not have, such as a misspelt one.

The API server drops an unknown field unless a client demands otherwise. Server-side apply, and so
every Kustomization, does: it fails with ``field not declared in schema``. All versions of a kind
have the same fields (``crds.versions``), so the stored version decides. Metadata and the status are
not looked at.
"""

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from crds import KINDS, versions
from crds.schema import Schema
from toolkit.objects import Json, gvk_of

_KINDS: Final = {(kind.group, kind.kind): kind for kind in KINDS}
_OTHERS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def unknown(obj: Json) -> Iterator[tuple[str, str]]:
    """Return the path of each unknown field, and the field that may be meant or an empty text.

    That is a field with a similar name, or the path of one with the same name that is one level
    deeper or higher.
    """
    yield from _unknown(
        {key: obj[key] for key in obj if key not in _OTHERS},
        schema(*gvk_of(obj).group_kind),
        "",
        {},
    )


@cache
def schema(group: str, kind: str) -> Schema:
    """Return the schema of a kind's stored version, which has the fields of all versions."""
    return versions.newest(_KINDS[group, kind])


def _unknown(
    value: Any, shape: Schema, path: str, above: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """``above`` are the paths of the fields of the objects around the value, by their names."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _unknown(each, shape.get("items", {}), f"{path}[{number}]", above)
    elif isinstance(value, dict) and "properties" in shape:
        fields = shape["properties"]
        own = {name: _below(path, name) for name in fields}
        for name, each in value.items():
            place = _below(path, name)
            if name in fields:
                yield from _unknown(each, fields[name], place, {**above, **own})
            else:
                yield place, _meant(name, own, fields, above)
    elif isinstance(value, dict) and isinstance(shape.get("additionalProperties"), dict):
        for name, each in value.items():
            yield from _unknown(each, shape["additionalProperties"], f"{path}.{name}", above)


def _meant(
    name: str, own: Mapping[str, str], fields: Mapping[str, Schema], above: Mapping[str, str]
) -> str:
    """Return the field that the author may have meant."""
    deeper = [
        _below(own[each], name)
        for each, shape in fields.items()
        if name in shape.get("properties", {})
    ]
    if len(deeper) == 1:
        return deeper[0]
    return above.get(name) or next(iter(difflib.get_close_matches(name, fields, n=1)), "")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
