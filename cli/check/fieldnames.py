"""Fields that a kind does not have, such as a misspelt one.

The API server drops an unknown field unless a client demands otherwise. Server-side apply, and so
every Kustomization, does: it fails with ``field not declared in schema``. All versions of a kind
have the same fields (``crds.versions``), so the stored version decides. Metadata and the status are
not looked at.
"""

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from crds import KINDS, versions
from crds.schema import Schema
from toolkit.objects import Json, gvk_of

_KINDS: Final = {(kind.group, kind.kind): kind for kind in KINDS}
_OTHERS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def unknown(obj: Json) -> Iterator[tuple[str, str]]:
    """Return the path of each unknown field, and a field with a similar name or an empty text."""
    schema = _schema(*gvk_of(obj).group_kind)
    yield from _unknown({key: obj[key] for key in obj if key not in _OTHERS}, schema, "")


@cache
def _schema(group: str, kind: str) -> Schema:
    return versions.newest(_KINDS[group, kind])


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _unknown(each, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict) and "properties" in schema:
        fields = schema["properties"]
        for name, each in value.items():
            place = f"{path}.{name}" if path else name
            if name in fields:
                yield from _unknown(each, fields[name], place)
            else:
                yield place, next(iter(difflib.get_close_matches(name, fields, n=1)), "")
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, each in value.items():
            yield from _unknown(each, schema["additionalProperties"], f"{path}.{name}")
