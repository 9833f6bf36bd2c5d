"""The difference of two JSON values as a short JSON Patch (RFC 6902).

Equality is that of JSON: ``true`` is not 1, and 1 is not 1.0. In lists, common elements at both
ends stay; the ones between are compared by position.
"""

from collections.abc import Iterator
from typing import Any

from toolkit.objects import Json


def diff(before: Json, after: Json) -> list[Json]:
    """Return the operations that turn ``before`` into ``after``; empty if they are equal."""
    return list(_diff("", before, after))


def _diff(path: str, before: Any, after: Any) -> Iterator[Json]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _mappings(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _lists(path, before, after)
    elif not _equal(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _mappings(path: str, before: Json, after: Json) -> Iterator[Json]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in after.items():
        if key in before:
            yield from _diff(f"{path}/{_escaped(key)}", before[key], value)
        else:
            yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}


def _lists(path: str, before: list[Any], after: list[Any]) -> Iterator[Json]:
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    both = min(len(old), len(new))
    for index in range(both):
        yield from _diff(f"{path}/{head + index}", old[index], new[index])
    # From the end, so that a removal does not move elements of later operations.
    for index in reversed(range(both, len(old))):
        yield {"op": "remove", "path": f"{path}/{head + index}"}
    for index in range(both, len(new)):
        yield {"op": "add", "path": f"{path}/{head + index}", "value": new[index]}


def _common(left: list[Any], right: list[Any]) -> int:
    """Return the number of equal elements at the start."""
    pairs = zip(left, right, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if not _equal(a, b)), min(map(len, (left, right)))
    )


def _equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _escaped(key: str) -> str:
    """Escape one step of a JSON pointer (RFC 6901, section 3)."""
    return key.replace("~", "~0").replace("/", "~1")
