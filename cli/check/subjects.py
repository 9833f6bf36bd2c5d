"""The objects to check, with their places."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from crds import KINDS
from toolkit.objects import Json, ObjectKey, ObjectRef, gvk_of, key_of, ref_of

OURS: Final = {(kind.group, kind.kind): kind for kind in KINDS}
"""The kinds that are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The file of an object, relative to the repository; none for a cluster.

    ``line`` and ``document`` count from 1.
    """

    file: str = ""
    line: int = 0
    document: int = 0

    def __str__(self) -> str:
        """Return ``file:line``."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One object to check.

    ``by`` is the Kustomization that applies it, if known. A ``partial`` object has variables whose
    values only the cluster knows.
    """

    obj: Json
    place: Place = field(default_factory=Place)
    by: ObjectKey | None = None
    partial: bool = False

    @property
    def ref(self) -> ObjectRef:
        """Return kind, namespace and name."""
        return ref_of(self.obj)


def ours(obj: Any) -> bool:
    """Tell whether it is an object of a kind that is checked."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return False
    return gvk_of(obj).group_kind in OURS


def settled(subject: Subject, namespace: str) -> Subject:
    """Return the subject with a namespace if it has none, and without fields that are null.

    The API server takes such fields as not written.
    """
    obj = without_nulls(subject.obj)
    if OURS[gvk_of(obj).group_kind].namespaced and not key_of(obj).namespace:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    return replace(subject, obj=obj)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without those keys of mappings whose value is null."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def unique(found: Iterable[Subject]) -> list[Subject]:
    """Return each object once: of several with the same name and spec the first."""
    kept: dict[tuple[object, ...], Subject] = {}
    for each in found:
        kept.setdefault((*each.ref.identity, repr(each.obj.get("spec"))), each)
    return list(kept.values())
