"""The inventory of an applier: the objects that it has applied, as in ``status.inventory``.

An id has Flux's form ``<namespace>_<name>_<group>_<kind>``, so that a cluster can be handed over in
place and ``flux tree`` keeps working. Names of RBAC objects may contain colons, which are written
as ``__``. The version of the kind is stored beside the id and is not part of an object's identity.

Pure values. ``toolkit.apply`` decides which objects are deleted, and in which order.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from toolkit import errors
from toolkit.objects import GroupVersionKind, ObjectRef

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of the inventory."""

    ref: ObjectRef

    @classmethod
    def parse(cls, entry_id: str, version: str) -> "Entry":
        """Read an id and its version.

        Raises:
            StalledError: the id does not have four parts.
        """
        namespace, first, rest = entry_id.partition("_")
        rest, second, kind = rest.rpartition("_")
        name, third, group = rest.rpartition("_")
        if not (first and second and third and name and kind):
            raise errors.StalledError(f"malformed inventory id {entry_id!r}")
        if group == _RBAC_GROUP:
            name = name.replace("__", ":")
        gvk = GroupVersionKind.shared(group, version, kind)
        return cls(ObjectRef(gvk, sys.intern(namespace), sys.intern(name)))

    @property
    def id(self) -> str:
        """Return the id in Flux's form."""
        gvk, name = self.ref.gvk, self.ref.name
        if gvk.group == _RBAC_GROUP:
            name = name.replace(":", "__")
        return f"{self.ref.namespace}_{name}_{gvk.group}_{gvk.kind}"


def encode(refs: Iterable[ObjectRef]) -> list[dict[str, str]]:
    """Return ``status.inventory.entries`` for these objects, in their order, without repeats."""
    unique = {ref.identity: ref for ref in refs}
    return [{"id": Entry(ref).id, "v": ref.gvk.version} for ref in unique.values()]


def decode(entries: Iterable[Mapping[str, str]]) -> tuple[ObjectRef, ...]:
    """Return the objects that ``status.inventory.entries`` lists.

    Raises:
        StalledError: an id is malformed.
    """
    return tuple(Entry.parse(entry["id"], entry.get("v", "")).ref for entry in entries)


def difference(old: Iterable[ObjectRef], new: Iterable[ObjectRef]) -> tuple[ObjectRef, ...]:
    """Return the objects of ``old`` that are not in ``new``; versions of kinds are ignored."""
    kept = {ref.identity for ref in new}
    return tuple(ref for ref in old if ref.identity not in kept)
