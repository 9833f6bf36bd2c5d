"""Find the objects at a path of a schema, such as ``spec.sourceRefs[]``. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any


def at(obj: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects at a path, each with its exact path, such as ``spec.sourceRefs[2]``.

    ``[]`` in the path means each element of a list. Other values than objects are left out.
    """
    yield from _at(obj, path.split("."), "")


def _at(
    node: Mapping[str, Any], parts: list[str], path: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    name, rest = parts[0], parts[1:]
    key = name.removesuffix("[]")
    here = f"{path}.{key}".lstrip(".")
    value = node.get(key)
    if name.endswith("[]"):
        entries = value if isinstance(value, list) else []
        found = [(f"{here}[{number}]", entry) for number, entry in enumerate(entries)]
    else:
        found = [(here, value)]
    for place, entry in found:
        if not isinstance(entry, Mapping):
            continue
        if rest:
            yield from _at(entry, rest, place)
        else:
            yield place, entry
