"""Objects from one version of a kind to another, by way of the stored one. Pure.

All versions have the same fields (``crds.versions``), so only ``apiVersion`` changes, and the few
values with another form are rewritten (``crds.change``). If rewriting and writing back would not
give the same text, an annotation keeps the original, ``conversion.penstock.dev/<version>`` with the
version of the original:

- ``…/v1beta1`` on a stored object contains what was written in v1beta1. It counts only while the
  stored value is still the result of its conversion: after an edit in the stored version it is
  void, so it can neither undo the edit nor needs to be updated.
- ``…/v1`` on an object read in v1beta1 contains what is stored. It is never stored itself.

Nothing is validated here; that is for schemas and admission. A value that cannot be understood is
passed on as it is, because one bad object must not make a whole list unreadable.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from crds.change import ABSENT, Change
from crds.kind import Kind, OldVersion

Json: TypeAlias = dict[str, Any]

PREFIX: Final = "conversion.penstock.dev/"
LIMIT: Final = 64 << 10
"""Bytes of originals on one object; of all annotations an API server takes 256 KiB. What does not
fit is let go: only a status can be that long."""


class ConversionError(ValueError):
    """The object has no such version, or is not an object of the kind; names object and field."""


class Converter:
    """Knows the kinds, and the versions of each."""

    def __init__(self, kinds: Iterable[Kind[Struct]]) -> None:
        self._kinds: Mapping[tuple[str, str], Kind[Struct]] = {
            (kind.group, kind.kind): kind for kind in kinds
        }

    def convert(self, obj: Any, to: str) -> Json:
        """Return the object in another version of its group, ``to`` as ``<group>/<version>``.

        What was given is not changed, but may share parts with the result.

        Raises:
            ConversionError: there is no such version, or a field on the way is of another type.
        """
        if not isinstance(obj, dict):
            raise ConversionError(f"not an object but {_type(obj)}: send objects")
        here = str(obj.get("apiVersion"))
        kind = self._kinds.get((here.rpartition("/")[0], str(obj.get("kind"))))
        if kind is None:
            raise ConversionError(
                f"{_name(obj)}: kind: not a kind of {here}: see `kubectl api-resources`"
            )
        source, target = _old(kind, here, obj), _old(kind, to, obj)
        if here == to:
            return obj
        if source is not None and source.changes:
            obj = _rewritten(obj, kind, source, upward=True)
        if target is not None and target.changes:
            obj = _rewritten(obj, kind, target, upward=False)
        return {**obj, "apiVersion": to}


def _old(kind: Kind[Struct], api_version: str, obj: Json) -> OldVersion | None:
    """Return the version, or None where it is the stored one."""
    group, _, version = api_version.rpartition("/")
    if group == kind.group and version == kind.version:
        return None
    for old in kind.older:
        if group == kind.group and version == old.version:
            return old
    versions = ", ".join((kind.version, *(old.version for old in kind.older)))
    raise ConversionError(
        f"{_name(obj)}: apiVersion: {kind.kind} has no version {api_version}: {kind.group} has "
        f"{versions}"
    )


def _rewritten(obj: Json, kind: Kind[Struct], old: OldVersion, *, upward: bool) -> Json:
    metadata = _mapping(obj, "metadata", obj) or {}
    annotations = _mapping(metadata, "metadata.annotations", obj) or {}
    left, arrived = (kind.version, old.version) if upward else (old.version, kind.version)
    originals = _originals(annotations.get(PREFIX + left))
    rewritten, lost = dict(obj), {}
    for change in old.changes:
        name = ".".join(change.path)
        was = _rewrite(rewritten, change, originals.get(name, ABSENT), upward=upward)
        if was is not ABSENT:
            lost[name] = was
    kept = _noted(annotations, {PREFIX + left, PREFIX + arrived}, PREFIX + arrived, lost)
    if kept != annotations:
        bare = {key: value for key, value in metadata.items() if key != "annotations"}
        rewritten["metadata"] = bare | ({"annotations": kept} if kept else {})
    return rewritten


def _rewrite(obj: Json, change: Change, original: Any, *, upward: bool) -> Any:
    """Rewrite one place of ``obj`` in place; return what the way back would not give, or ABSENT."""
    parent = _parent(obj, change.path)
    if parent is None:
        return ABSENT
    there, back = (change.up, change.down) if upward else (change.down, change.up)
    last = change.path[-1]
    value = parent.get(last, ABSENT)
    if original is not ABSENT and _same(back(original), value):
        result, was = original, ABSENT
    elif value is ABSENT:
        return ABSENT
    else:
        result = there(value)
        restored = ABSENT if result is ABSENT else back(result)
        was = ABSENT if _same(restored, value) else value
    if not _same(result, value):
        _replace(obj, change.path, result)
    return was


def _parent(obj: Json, path: tuple[str, ...]) -> Json | None:
    node = obj
    for depth in range(1, len(path)):
        found = _mapping(node, ".".join(path[:depth]), obj)
        if found is None:
            return None
        node = found
    return node


def _replace(obj: Json, path: tuple[str, ...], value: Any) -> None:
    """Put the value there, in copies of everything on the way but ``obj`` itself."""
    node = obj
    for step in path[:-1]:
        node[step] = dict(node[step])
        node = node[step]
    if value is ABSENT:
        node.pop(path[-1], None)
    else:
        node[path[-1]] = value


def _mapping(node: Json, path: str, obj: Json) -> Json | None:
    value = node.get(path.rpartition(".")[2])
    if value is None or isinstance(value, dict):
        return value
    raise ConversionError(
        f"{_name(obj)}: {path}: must be an object, not {_type(value)}: write its fields below it"
    )


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _originals(text: Any) -> Mapping[str, Any]:
    """Return what an annotation holds; nothing where anybody has made it unreadable."""
    if not isinstance(text, str) or len(text) > LIMIT:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _noted(annotations: Json, stale: set[str], name: str, originals: Json) -> Json:
    kept = {key: value for key, value in annotations.items() if key not in stale}
    if originals:
        kept[name] = msgspec.json.encode(dict(_fitting(originals)), order="sorted").decode()
    return kept


def _fitting(originals: Json) -> Iterator[tuple[str, Any]]:
    room = LIMIT
    for name, value in originals.items():
        room -= len(msgspec.json.encode({name: value}))
        if room >= 0:
            yield name, value


def _name(obj: Json) -> str:
    metadata = obj.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    parts = (obj.get("kind"), found.get("namespace"), found.get("name"))
    return "/".join(str(part) for part in parts if part) or "object"


def _type(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", dict: "an object"}
    return "null" if value is None else names.get(type(value), "a number")
