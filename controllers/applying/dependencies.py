"""Whether the objects named in ``spec.dependsOn`` allow one to proceed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from controllers.applying import applier
from controllers.applying.applier import Applier, Applying
from crds import HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind
from crds.meta import Conditions
from toolkit.apply import expressions
from toolkit.errors import Told, WaitingError
from toolkit.kube import caches
from toolkit.kube.informer import Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References


class Dependency(Protocol):
    """One entry of ``spec.dependsOn``."""

    @property
    def kind(self) -> str:
        """Return the kind of the object: a key of ``KINDS``."""

    @property
    def name(self) -> str:
        """Return the name of the object."""

    @property
    def namespace(self) -> str:
        """Return its namespace; empty for that of the dependent."""

    @property
    def ready_expr(self) -> str:
        """Return the expression that replaces the rule for readiness, or nothing."""


class _Spec(Applying, Protocol):
    @property
    def depends_on(self) -> Sequence[Dependency]: ...


class _Status(Protocol):
    @property
    def observed_generation(self) -> int: ...
    @property
    def last_applied_revision(self) -> str: ...
    @property
    def conditions(self) -> Conditions: ...


class Dependent(Applier, Protocol):
    """An object that may wait for others, and others for it."""

    @property
    def spec(self) -> _Spec:
        """Return what it waits for."""

    @property
    def status(self) -> _Status:
        """Return how far it is."""


Lookup = Callable[[ObjectKey], Dependent | None]

KINDS: Final[Mapping[str, GroupVersionKind]] = MappingProxyType(
    {kind.kind: GroupVersionKind(*kind.gvk) for kind in (KUSTOMIZATION, HELM_RELEASE)}
)
"""What ``dependsOn`` may name."""


def follow(manager: Manager, options: Options, kind: Kind[Any]) -> Later[Dependent]:
    """Return the objects of a kind of ``KINDS``, kept by an informer of the manager's.

    It runs once an object depends on one of them (``Triggers.dependencies``). Every label is
    welcome: one may wait for what another shard reconciles.
    """
    informer: Informer[Dependent] = Informer(
        manager.client,
        GroupVersionKind(*kind.gvk),
        decode=msgspec.json.Decoder(kind.model).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    later = Later(informer)
    manager.add_informer(later)
    return later


def references(obj: Dependent) -> Iterator[tuple[Dependency, ObjectRef]]:
    """Yield every dependency, and the object that it names."""
    for dependency in obj.spec.depends_on:
        namespace = dependency.namespace or obj.metadata.namespace
        yield dependency, ObjectRef(KINDS[dependency.kind], namespace, dependency.name)


def compile_expressions(obj: Dependent) -> None:
    """Compile every ``readyExpr``.

    Raises:
        StalledError: one does not compile, or there are too many.
    """
    expressions.require_few(each.ready_expr for each in obj.spec.depends_on)
    for dependency in obj.spec.depends_on:
        if dependency.ready_expr:
            expressions.ready_expression(dependency.ready_expr)


def progress(obj: Dependent) -> tuple[object, ...]:
    """Return what dependents wait for; ``readyExpr`` may also look at labels and annotations."""
    meta, status = obj.metadata, obj.status
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    seen = (ready, status.observed_generation, status.last_applied_revision)
    return (*seen, meta.generation, meta.labels, meta.annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Looks dependencies up in the informers of their kinds and lets a pass through, or not.

    Ready means: observed in its latest generation, and Ready=True. A ``readyExpr`` replaces that
    rule. Without a grant, the message about a dependency in another namespace says only that it is
    not ready, whether or not it exists.

    ``later`` are the caches that are filled once an object depends on one of their kind.
    """

    lookups: Mapping[GroupVersionKind, Lookup]
    policy: References
    later: Sequence[Later[Dependent]] = ()

    async def known(self, obj: Dependent) -> None:
        """Wait up to ten seconds for the first list of what the object depends on.

        A list that fails is not waited for again: a kind that the API server does not serve would
        hold the workers of everybody. An object that is listed later wakes its dependents.
        """
        kinds = {target.gvk for _, target in references(obj)}
        await caches.attempted(*(cache for cache in self.later if cache.gvk in kinds))

    def require_ready(self, obj: Dependent, *, current: Callable[[Dependent], bool]) -> None:
        """Return when every dependency is ready.

        ``current`` tells whether one that is ready is so at the revision that ``obj`` is about to
        apply.

        Raises:
            WaitingError: a dependency is missing or not ready.
            AccessDeniedError: one lies in another namespace, and may not or may not be read.
        """
        holder = applier.ref_to(obj)
        for dependency, target in references(obj):
            self.policy.require(holder, target, reads=bool(dependency.ready_expr))
            other = self.lookups[target.gvk](target.key)
            why = _unready(obj, other, dependency, current) if other else self._missing(target.gvk)
            if why:
                shown = self.policy.denial(holder, target) is None
                raise _waiting(target.key, why if shown else _UNREADY)

    def _missing(self, gvk: GroupVersionKind) -> str:
        unread = any(cache.gvk == gvk and not cache.synced for cache in self.later)
        return f"is not known yet: no list of {gvk.kind}s has been read" if unread else "not found"


_UNREADY: Final = "is not ready"


def _unready(
    obj: Dependent, other: Dependent, dependency: Dependency, current: Callable[[Dependent], bool]
) -> str:
    """Return what a dependency lacks; nothing if it is ready."""
    if dependency.ready_expr:
        holds = expressions.ready_expression(dependency.ready_expr)
        ready = holds(msgspec.to_builtins(obj), msgspec.to_builtins(other))
        return "" if ready else "is not ready according to readyExpr eval"
    status = other.status
    if status.observed_generation != other.metadata.generation:
        return _UNREADY
    if not any(c.type == "Ready" and c.status == "True" for c in status.conditions):
        return _UNREADY
    return "" if current(other) else "revision is not up to date"


def _waiting(key: ObjectKey, why: str) -> WaitingError:
    """Name the dependency in the condition; the event has Flux's text, which filters match."""
    return WaitingError(
        f"dependency '{key}' {why}", told=Told(event="Dependencies do not meet ready condition")
    )
