"""Find the values at a path of a schema, such as ``spec.sourceRefs[]``. Pure."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any


def values(obj: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the values at a path of an object, with their exact paths; nothing if it is unset.

    ``[]`` in the path means each element of a list.
    """
    found: list[tuple[str, Any]] = [("", obj)]
    for name, listed in _steps(path):
        found = [
            (f"{place}.{name}".lstrip("."), node[name])
            for place, node in found
            if isinstance(node, Mapping) and node.get(name) is not None
        ]
        if listed:
            found = [
                (f"{place}[{number}]", entry)
                for place, node in found
                if isinstance(node, list)
                for number, entry in enumerate(node)
            ]
        if not found:
            return
    yield from found


@functools.cache
def _steps(path: str) -> tuple[tuple[str, bool], ...]:
    """Return the names on a path, and which are of lists; paths are few and our own."""
    return tuple((part.removesuffix("[]"), part.endswith("[]")) for part in path.split("."))


def objects(obj: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects among the values at a path."""
    return ((place, value) for place, value in values(obj, path) if isinstance(value, Mapping))
