"""The order in which objects are written and deleted.

Stages come first, as in Flux: definitions (CRDs, Namespaces, ClusterRoles), kinds ending in
``Class``, kinds that the operator names (``--custom-apply-stage-kinds``), and all others. The apply
waits until the objects of the first two stages are ready. Inside a stage the rank of the kind
determines the order; objects of one rank do not depend on each other and may be written together.
Deletion uses the reverse order.

``needs`` returns the objects of earlier stages without which the server cannot check an object:
only these postpone its dry-run.

Pure functions over objects; nothing here sends requests.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Final

from toolkit.objects import Json, ObjectRef, dig, gvk_of, ref_of

GroupKind = tuple[str, str]
Identity = tuple[str, str, str, str]

_RBAC: Final = "rbac.authorization.k8s.io"
_CRD: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE: Final = ("", "Namespace")
_DEFINITIONS: Final = frozenset({_CRD, _NAMESPACE, (_RBAC, "ClusterRole")})
_RANKED: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "*Class",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
)
_RANKS: Final[Mapping[str, int]] = MappingProxyType({k: i for i, k in enumerate(_RANKED)})
_OTHERS: Final = len(_RANKED)
_RUNNING: Final = _RANKS["ConfigMap"]
"""From this rank on, the kinds are workloads and the objects that they use."""
_LAST: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Objects that are written before the next stage is; ``awaited`` until they are ready."""

    name: str
    objects: tuple[Json, ...]
    awaited: bool


def stages(objects: Iterable[Json], *, custom: Collection[GroupKind] = ()) -> tuple[Stage, ...]:
    """Split the objects into stages, each sorted as it is to be written."""
    placed: tuple[tuple[str, bool, Callable[[GroupKind], bool]], ...] = (
        ("definitions", True, lambda kind: kind in _DEFINITIONS),
        ("classes", True, lambda kind: kind[1].endswith("Class")),
        ("custom", False, lambda kind: kind in custom),
        ("resources", False, lambda _: True),
    )
    rest = sorted(objects, key=lambda obj: _place(ref_of(obj)))
    found = []
    for name, awaited, belongs in placed:
        mine = tuple(obj for obj in rest if belongs(gvk_of(obj).group_kind))
        rest = [obj for obj in rest if not belongs(gvk_of(obj).group_kind)]
        if mine:
            found.append(Stage(name=name, objects=mine, awaited=awaited))
    return tuple(found)


def rank(kind: str) -> int:
    """Return the place of the kind among all kinds; small numbers are written first."""
    if kind in _LAST:
        return _OTHERS + 1
    return _RANKS.get("*Class" if kind.endswith("Class") else kind, _OTHERS)


def by_rank(objects: Sequence[Json]) -> Iterator[tuple[Json, ...]]:
    """Yield runs of objects that may be written together; expects a stage's sorted objects."""
    for _, run in groupby(objects, key=lambda obj: rank(str(obj.get("kind")))):
        yield tuple(run)


def deletion_ranks(refs: Iterable[ObjectRef]) -> Iterator[tuple[ObjectRef, ...]]:
    """Yield groups of objects that may be deleted together, in reverse order of writing.

    Workloads are in one group with the objects that they use and that route to them, because no
    deletion waits for their end. Kinds on which the validity or the permission of others depends
    keep their order.
    """
    ordered = sorted(refs, key=_place, reverse=True)
    for _, run in groupby(ordered, key=lambda ref: _deletion_rank(ref.gvk.kind)):
        yield tuple(run)


def _deletion_rank(kind: str) -> int:
    place = rank(kind)
    return _RUNNING if _RUNNING <= place < _OTHERS else place


def defined_kind(obj: Json) -> GroupKind | None:
    """Return the kind that a CRD defines, None for any other object."""
    if gvk_of(obj).group_kind != _CRD:
        return None
    return str(dig(obj, "spec", "group", default="")), str(dig(obj, "spec", "names", "kind"))


def needs(obj: Json, definitions: Mapping[GroupKind, Identity]) -> frozenset[Identity]:
    """Return which objects must exist before the server can judge this one.

    ``definitions`` maps the kinds that CRDs of the set define to those CRDs. Counted are its
    CRD, its Namespace, a ClusterRole that it binds (the escalation check reads it), and the
    classes that admission looks up for a bare Pod.
    """
    ref = ref_of(obj)
    wanted: set[Identity] = set()
    if ref.gvk.group_kind in definitions:
        wanted.add(definitions[ref.gvk.group_kind])
    if ref.namespace:
        wanted.add((*_NAMESPACE, "", ref.namespace))
    if dig(obj, "roleRef", "kind") == "ClusterRole":
        wanted.add((_RBAC, "ClusterRole", "", str(dig(obj, "roleRef", "name"))))
    if ref.gvk.group_kind == ("", "Pod"):
        for group, kind, field in (
            ("scheduling.k8s.io", "PriorityClass", "priorityClassName"),
            ("node.k8s.io", "RuntimeClass", "runtimeClassName"),
        ):
            wanted.add((group, kind, "", str(dig(obj, "spec", field, default=""))))
    return frozenset(wanted)


def _place(ref: ObjectRef) -> tuple[int, str, str, str, str]:
    return (rank(ref.gvk.kind), *ref.gvk.group_kind, ref.namespace, ref.name)
