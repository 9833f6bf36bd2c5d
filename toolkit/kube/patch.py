"""The smallest merge patch (RFC 7386) that turns one JSON object into another, and back. Pure."""

from collections.abc import Mapping
from typing import Any

from toolkit.objects import Json


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the merge patch that turns ``old`` into ``new``; empty if they are equal.

    Objects are compared key by key, lists are replaced as a whole. A null in ``new`` means that the
    field is absent. An empty value adds nothing if the field is absent (API conventions,
    ``omitempty``).
    """
    patch: Json = {}
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            inner = merge_patch(before, after)
            if inner:
                patch[key] = inner
        elif before != after and (after or before is not None):
            patch[key] = _without_nulls(after) if isinstance(after, Mapping) else after
    return patch


def applied(old: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """Return the result of applying a merge patch to ``old`` (RFC 7386)."""
    found = {key: value for key, value in old.items() if key not in change}
    for key, value in change.items():
        if isinstance(value, Mapping):
            before = old.get(key)
            found[key] = applied(before if isinstance(before, Mapping) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def _without_nulls(value: Mapping[str, Any]) -> Json:
    """Drop nulls inside a new object: a merge patch would read them as removals."""
    return {
        key: _without_nulls(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
        if item is not None
    }
