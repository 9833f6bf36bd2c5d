"""The kinds of appliers: one row per kind, and the cached part of their objects.

The status of an applier has the list of the objects that it applied. Of the rest only little is
cached, because there are thousands of appliers: a few hundred bytes and a reference per applied
object. Equal strings, such as the revision, are stored once. Nothing else here depends on the
kinds. The resource serves all rows.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from crds import HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind
from toolkit import inventory
from toolkit.apply import health
from toolkit.apply.health import Rule
from toolkit.apply.options import MANAGER
from toolkit.apply.ownership import KUSTOMIZE_GROUP
from toolkit.errors import StalledError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

_MAX_MESSAGE: Final = 256
_LABELS: Final = 64
"""The first by name; Kubernetes limits them nowhere, and every watch of inventories gets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source that an applier builds from, and where it appears in the build tree."""

    kind: str
    namespace: str
    name: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The state of one applier; ``refs`` is its inventory.

    ``remote`` tells that it applies to another cluster. ``busy`` tells that a reconciliation is in
    progress, so missing objects may be created soon. ``problem`` is the reason why its inventory is
    invalid.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    created: str
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    suspended: bool = False
    remote: bool = False
    busy: bool = False
    revision: str = ""
    attempted: str = ""
    conditions: tuple[Json, ...] = ()
    refs: tuple[ObjectRef, ...] = ()
    rules: tuple[Rule, ...] = ()
    problem: str = ""

    def condition(self, type_: str) -> Json:
        """Return the condition of that type, or an empty one."""
        return next((row for row in self.conditions if row["type"] == type_), {})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Applier:
    """One kind of applier: its decoder, and the marks of its applied objects.

    ``manager`` is its field manager. ``group`` is the prefix of its owner labels. ``prefix`` begins
    the names of its inventories; names of objects have no colon, so a prefix with a colon is
    unique. ``planner`` is the controller that computes its plans, and the name of the controller's
    Service.
    """

    kind: Kind[Any]
    manager: str
    group: str
    read: Callable[[bytes], Applied]
    prefix: str = ""
    planner: str

    @property
    def gvk(self) -> GroupVersionKind:
        """Return the kind of its objects."""
        return GroupVersionKind(*self.kind.gvk)


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    labels: dict[str, str] = {}


class _Reference(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    suspend: bool = False
    kube_config: Json | None = None
    health_check_exprs: list[dict[str, str]] = []


class _KustomizationSpec(_Spec, rename="camel"):
    source_ref: _Reference | None = None
    source_refs: list[_Reference] = []

    def sources(self) -> Iterator[_Reference]:
        """Yield the sources of the applier."""
        yield from [self.source_ref] if self.source_ref else []
        yield from self.source_refs


class _ChartSpec(msgspec.Struct, rename="camel"):
    source_ref: _Reference | None = None


class _Chart(msgspec.Struct):
    spec: _ChartSpec = msgspec.field(default_factory=_ChartSpec)


class _HelmReleaseSpec(_Spec, rename="camel"):
    chart: _Chart | None = None
    chart_ref: _Reference | None = None

    def sources(self) -> Iterator[_Reference]:
        """Yield where its chart is from."""
        template = self.chart.spec.source_ref if self.chart else None
        yield from (each for each in (template, self.chart_ref) if each)


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Inventory(msgspec.Struct):
    entries: list[dict[str, str]] = []


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = []
    last_attempted_revision: str = ""
    inventory: _Inventory | None = None


class _KustomizationStatus(_Status, rename="camel"):
    last_applied_revision: str = ""


class _Release(msgspec.Struct, rename="camel"):
    chart_version: str = ""


class _HelmReleaseStatus(_Status, rename="camel"):
    history: list[_Release] = []


class _Kustomization(msgspec.Struct):
    metadata: _Meta
    spec: _KustomizationSpec = msgspec.field(default_factory=_KustomizationSpec)
    status: _KustomizationStatus = msgspec.field(default_factory=_KustomizationStatus)


class _HelmRelease(msgspec.Struct):
    metadata: _Meta
    spec: _HelmReleaseSpec = msgspec.field(default_factory=_HelmReleaseSpec)
    status: _HelmReleaseStatus = msgspec.field(default_factory=_HelmReleaseStatus)


_KUSTOMIZATION: Final = msgspec.json.Decoder(_Kustomization)
_HELM_RELEASE: Final = msgspec.json.Decoder(_HelmRelease)


def kustomization(raw: bytes) -> Applied:
    """Read a Kustomization."""
    obj = _KUSTOMIZATION.decode(raw)
    return _applied(obj, obj.spec.sources(), obj.status.last_applied_revision)


def helm_release(raw: bytes) -> Applied:
    """Read a HelmRelease; its revision is the version of the chart that was released last."""
    obj = _HELM_RELEASE.decode(raw)
    released = next((each.chart_version for each in obj.status.history), "")
    return _applied(obj, obj.spec.sources(), released)


def _applied(
    obj: _Kustomization | _HelmRelease, sources: Iterable[_Reference], revision: str
) -> Applied:
    meta, spec, status = obj.metadata, obj.spec, obj.status
    refs, problem = _refs(status.inventory)
    conditions = tuple(_condition(row) for row in status.conditions)
    working = any(row["type"] == "Reconciling" and row["status"] == "True" for row in conditions)
    return Applied(
        key=ObjectKey(sys.intern(meta.namespace), sys.intern(meta.name)),
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=meta.creation_timestamp,
        labels=dict(sorted(meta.labels.items())[:_LABELS]),
        sources=tuple(
            Source(
                kind=sys.intern(ref.kind),
                namespace=sys.intern(ref.namespace or meta.namespace),
                name=sys.intern(ref.name),
                path=ref.path,
            )
            for ref in sources
        ),
        suspended=spec.suspend,
        remote=spec.kube_config is not None,
        busy=working and not spec.suspend,
        revision=sys.intern(revision),
        attempted=sys.intern(status.last_attempted_revision),
        conditions=conditions,
        refs=refs,
        rules=_rules(spec.health_check_exprs),
        problem=problem,
    )


def _refs(listed: _Inventory | None) -> tuple[tuple[ObjectRef, ...], str]:
    try:
        found = inventory.decode(listed.entries if listed else ())
    except (StalledError, KeyError) as exc:
        return (), f"status.inventory cannot be read: {exc}"
    return tuple({ref.identity: ref for ref in found}.values()), ""


def _rules(specs: list[dict[str, str]]) -> tuple[Rule, ...]:
    """Read ``spec.healthCheckExprs``; the controller reports invalid expressions."""
    try:
        return health.rules_of(specs)
    except (StalledError, KeyError):
        return ()


def _condition(row: _Condition) -> Json:
    short = row.message if len(row.message) <= _MAX_MESSAGE else f"{row.message[:_MAX_MESSAGE]}…"
    return {
        "type": sys.intern(row.type),
        "status": sys.intern(row.status),
        "reason": sys.intern(row.reason),
        "message": sys.intern(short),
        "lastTransitionTime": sys.intern(row.last_transition_time),
    }


APPLIERS: Final = (
    # Its inventories are named as the Kustomizations are.
    Applier(
        kind=KUSTOMIZATION,
        manager=MANAGER,
        group=KUSTOMIZE_GROUP,
        read=kustomization,
        planner="kustomize-controller",
    ),
    # A HelmRelease and a Kustomization may have the same name.
    Applier(
        kind=HELM_RELEASE,
        manager="helm-controller",
        group=HELM_RELEASE.group,
        read=helm_release,
        prefix="helmrelease:",
        planner="helm-controller",
    ),
)
"""Every kind that keeps an inventory."""


def inventory_name(kind: str, name: str) -> str:
    """Return the name of the inventory of an applier of a kind."""
    prefix = next((each.prefix for each in APPLIERS if each.kind.kind == kind), "")
    return f"{prefix}{name}"
