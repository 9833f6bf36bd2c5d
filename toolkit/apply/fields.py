"""Reading ``metadata.managedFields``: which manager owns which fields.

The entry of our manager is the whole memory of an apply: as long as its digest (without the time)
stays the same, no other writer has taken, changed or removed a field that we set. A field set is
the ``FieldsV1`` tree of structured-merge-diff: ``f:<name>``, ``k:<keys>``, ``v:<value>`` and ``.``
for the node itself; an empty node is a leaf that is owned as a whole.

Pure functions over decoded JSON.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from toolkit.objects import Json, dig

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_canonical: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Writer:
    """A field manager of an object, with a digest of its fields and the time of its entry."""

    manager: str
    operation: str
    digest: str
    time: str = ""


def digest(value: object) -> str:
    """Return a short digest of a JSON value; the order of keys does not matter.

    Equal digests share one string in memory, because objects of a kind mostly have the same fields.
    """
    return sys.intern(hashlib.blake2b(_canonical.encode(value), digest_size=16).hexdigest())


def entries(obj: Json) -> tuple[Json, ...]:
    """Return the managedFields entries of the object."""
    return tuple(dig(obj, "metadata", "managedFields", default=()))


def applied_entry(obj: Json, manager: str) -> Json | None:
    """Return the managedFields entry of ``manager`` for server-side apply, or None."""
    for entry in entries(obj):
        if (entry.get("manager"), entry.get("operation")) == (manager, APPLY) and not entry.get(
            "subresource"
        ):
            return entry
    return None


def entry_digest(obj: Json, manager: str) -> str:
    """Return the digest of the manager's entry without its time; empty when it has none."""
    entry = applied_entry(obj, manager)
    if entry is None:
        return ""
    return digest({key: value for key, value in entry.items() if key != "time"})


def stamp(obj: Json, manager: str) -> str:
    """Return when an apply of the manager last changed a value; empty when none has."""
    return str((applied_entry(obj, manager) or {}).get("time") or "")


def other_writers(obj: Json, manager: str) -> tuple[Writer, ...]:
    """Return all other managers with fields, except those that only write the status."""
    return tuple(
        Writer(
            sys.intern(str(entry.get("manager") or "unknown")),
            sys.intern(str(entry.get("operation") or "")),
            digest(entry.get("fieldsV1") or {}),
            sys.intern(str(entry.get("time") or "")),
        )
        for entry in entries(obj)
        if entry.get("subresource") != "status"
        and (entry.get("manager"), entry.get("operation")) != (manager, APPLY)
    )


def union(trees: Sequence[Mapping[str, Any]]) -> Json:
    """Return the set of all fields that any of the trees holds."""
    merged: Json = {}
    for key in sorted({key for tree in trees for key in tree}):
        merged[key] = union([tree[key] for tree in trees if isinstance(tree.get(key), dict)])
    return merged


def size(tree: Mapping[str, Any]) -> int:
    """Return the number of leaves of a field set."""
    leaves = 0
    for node in tree.values():
        leaves += size(node) if node else 1
    return leaves


def paths(tree: Mapping[str, Any], *, depth: int) -> set[tuple[str, ...]]:
    """Return the nodes at this depth, and the leaves above it."""
    found: set[tuple[str, ...]] = set()
    for key, node in tree.items():
        below = paths(node, depth=depth - 1) if depth > 1 and node else {()}
        found |= {(key, *rest) for rest in below}
    return found


def without(tree: Mapping[str, Any], other: Mapping[str, Any]) -> Json:
    """Return the leaves of ``tree`` that the set ``other`` does not hold."""
    left: Json = {}
    for key, node in tree.items():
        if key not in other:
            left[key] = node
        elif node and (rest := without(node, other[key] or {})):
            left[key] = rest
    return left


def owns(tree: Mapping[str, Any], steps: Sequence["str | Item"]) -> bool:
    """Tell whether the field set holds the field at ``steps`` or a leaf above or below it."""
    node = tree
    for step in steps:
        key = step.key_in(node) if isinstance(step, Item) else f"f:{step}"
        if key is None or key not in node:
            return False
        node = node[key]
        if not node:
            return True
    return True


_LONGEST_KEY: Final = 16 << 10
"""Characters of a step; the keys of a list item are names, ports and the like."""


@dataclass(frozen=True, slots=True)
class Item:
    """A step into a list: the item, from which the key in the live list is found."""

    value: Any

    def key_in(self, node: Mapping[str, Any]) -> str | None:
        """Return the ``k:`` or ``v:`` step of the node that names this item."""
        return next((key for key in node if key[:2] in ("k:", "v:") and self.named(key)), None)

    def named(self, key: str) -> bool:
        """Tell whether a ``k:`` or ``v:`` step names this item."""
        if len(key) > _LONGEST_KEY:
            return False
        try:
            wanted = msgspec.json.decode(key[2:])
        except (msgspec.DecodeError, RecursionError):  # of a server that is not an API server
            return False
        if not isinstance(wanted, dict):
            return bool(wanted == self.value)
        if not isinstance(self.value, dict) or self.value.keys().isdisjoint(wanted):
            return False
        # a port's protocol is defaulted by the server, so a missing key does not tell against it
        return all(self.value.get(name, value) == value for name, value in wanted.items())
