"""Whether the objects in ``spec.dependsOn`` are ready, so that an applier may proceed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from controllers.applying import applier
from controllers.applying.applier import Applier, Applying
from crds import HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind
from crds.meta import Conditions
from toolkit.apply import health
from toolkit.apply.health import Rule
from toolkit.errors import StalledError, Told, WaitingError
from toolkit.expressions import evaluator
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression
from toolkit.kube import caches
from toolkit.kube.informer import Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy import counts
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
        """Return the namespace of the object; empty for the namespace of the dependent."""

    @property
    def ready_expr(self) -> str:
        """Return the CEL expression that replaces the rule for readiness; empty for the rule."""


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
    """An applier that may have dependencies, and may be a dependency of others."""

    @property
    def spec(self) -> _Spec:
        """Return the spec, which has the dependencies."""

    @property
    def status(self) -> _Status:
        """Return the status, which shows whether the object is ready."""


Lookup = Callable[[ObjectKey], Dependent | None]

KINDS: Final[Mapping[str, GroupVersionKind]] = MappingProxyType(
    {kind.kind: GroupVersionKind(*kind.gvk) for kind in (KUSTOMIZATION, HELM_RELEASE)}
)
"""The kinds that ``dependsOn`` may name."""


def follow(manager: Manager, options: Options, kind: Kind[Any]) -> Later[Dependent]:
    """Return the cache of a kind of ``KINDS``, filled by an informer that the manager runs.

    The informer starts when the first object depends on this kind (``Triggers.dependencies``). It
    has no label selector, because an object may depend on an object of another shard.
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
    """Yield each dependency with the reference to its object, up to the permitted number."""
    for dependency in obj.spec.depends_on[: counts.DEPENDENCIES]:
        namespace = dependency.namespace or obj.metadata.namespace
        yield dependency, ObjectRef(KINDS[dependency.kind], namespace, dependency.name)


def ready_expressions(obj: Dependent) -> dict[str, Expression]:
    """Return every ``readyExpr`` by its field.

    Raises:
        StalledError: there are too many expressions or dependencies.
    """
    counts.require_few("spec.dependsOn", obj.spec.depends_on, counts.DEPENDENCIES)
    expressions.require_few(each.ready_expr for each in obj.spec.depends_on)
    return {
        f"spec.dependsOn[{number}].readyExpr": _expression(dependency)
        for number, dependency in enumerate(obj.spec.depends_on)
        if dependency.ready_expr
    }


async def require_expressions(evaluates: Evaluates, obj: Dependent, rules: Iterable[Rule]) -> None:
    """Require that every expression of an applier can be evaluated: dependencies, health rules.

    Raises:
        StalledError: an expression is invalid, or there are too many expressions or dependencies.
    """
    asked = {**ready_expressions(obj), **dict(health.named(rules))}
    await evaluator.require_valid(evaluates, obj.metadata.namespace, asked)


def progress(obj: Dependent) -> tuple[object, ...]:
    """Return the fields whose changes can make dependents proceed.

    Labels and annotations are among them, because a ``readyExpr`` may read them.
    """
    meta, status = obj.metadata, obj.status
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    seen = (ready, status.observed_generation, status.last_applied_revision)
    return (*seen, meta.generation, meta.labels, meta.annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Checks dependencies in the informers of their kinds.

    An object is ready if the controller has observed its latest generation and Ready is True. A
    ``readyExpr`` replaces that rule. Without a grant, the message about a dependency in another
    namespace says only that it is not ready, whether or not it exists.

    ``later`` are the caches that are filled only when an object depends on their kind.
    """

    lookups: Mapping[GroupVersionKind, Lookup]
    policy: References
    evaluates: Evaluates
    later: Sequence[Later[Dependent]] = ()

    async def known(self, obj: Dependent) -> None:
        """Wait up to ten seconds for the first list of each kind that the object depends on.

        After a list has failed, later calls do not wait for it. Otherwise a kind that the API
        server does not serve would occupy all workers. Objects that are listed later wake their
        dependents.
        """
        kinds = {target.gvk for _, target in references(obj)}
        await caches.attempted(*(cache for cache in self.later if cache.gvk in kinds))

    async def require_ready(self, obj: Dependent, *, current: Callable[[Dependent], bool]) -> None:
        """Require that every dependency is ready.

        ``current`` tells whether a ready dependency has applied the revision that ``obj`` is about
        to apply.

        Raises:
            WaitingError: a dependency is missing or not ready.
            AccessDeniedError: a ``readyExpr`` reads an object in another namespace without a grant
                there, or a flag forbids all references to other namespaces.
            StalledError: a ``readyExpr`` costs too much, or does not yield a bool.
        """
        holder = applier.ref_to(obj)
        found: list[tuple[Dependency, ObjectRef, Dependent | None]] = []
        for dependency, target in references(obj):
            self.policy.require(holder, target, reads=bool(dependency.ready_expr))
            found.append((dependency, target, self.lookups[target.gvk](target.key)))
        met = await self._evaluated(obj, found)
        for dependency, target, other in found:
            if other is None:
                why = self._missing(target.gvk)
            elif dependency.ready_expr:
                why = "" if met.pop(0) else "is not ready according to readyExpr eval"
            else:
                why = _unready(other, current)
            if why:
                shown = self.policy.denial(holder, target) is None
                raise _waiting(target.key, why if shown else _UNREADY)

    async def _evaluated(
        self,
        obj: Dependent,
        found: Sequence[tuple[Dependency, ObjectRef, Dependent | None]],
    ) -> list[bool]:
        """Evaluate the ``readyExpr`` of each dependency that exists, all within one budget."""
        asked = [(each, other) for each, _, other in found if each.ready_expr and other]
        if not asked:
            return []
        cases = [
            Case(given={"dep": other}, steps=(Step(expression=_expression(each)),))
            for each, other in asked
        ]
        try:
            outcomes = await self.evaluates.evaluate(
                obj.metadata.namespace, cases, shared={"self": obj}
            )
            return [
                expressions.holds(_expression(each), outcome)
                for (each, _), (outcome,) in zip(asked, outcomes, strict=True)
            ]
        except StalledError as exc:
            raise exc.within("spec.dependsOn[].readyExpr") from exc

    def _missing(self, gvk: GroupVersionKind) -> str:
        unread = any(cache.gvk == gvk and not cache.synced for cache in self.later)
        return f"is unknown: no {gvk.kind}s have been listed yet" if unread else _NOT_FOUND


_NOT_FOUND: Final = "not found: create it, or correct spec.dependsOn"
_UNREADY: Final = "is not ready"


def _unready(other: Dependent, current: Callable[[Dependent], bool]) -> str:
    """Return why a dependency without ``readyExpr`` is not ready; empty if it is ready."""
    status = other.status
    if status.observed_generation != other.metadata.generation:
        return _UNREADY
    if not any(c.type == "Ready" and c.status == "True" for c in status.conditions):
        return _UNREADY
    return "" if current(other) else "revision is not up to date"


def _expression(dependency: Dependency) -> Expression:
    return Expression(text=dependency.ready_expr, variables=("self", "dep"))


def _waiting(key: ObjectKey, why: str) -> WaitingError:
    """Return the error of a dependency; its event has Flux's text, because alerts filter on it."""
    return WaitingError(
        f"dependency '{key}' {why}", told=Told(event="Dependencies do not meet ready condition")
    )
