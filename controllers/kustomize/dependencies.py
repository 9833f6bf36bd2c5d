"""Whether the Kustomizations named in ``spec.dependsOn`` allow this one to proceed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers.kustomize.sources import SourceReader, Sources, ref_to
from crds.kustomize import Kustomization
from crds.kustomize_parts import DependencyReference
from toolkit.apply import expressions
from toolkit.errors import Told, WaitingError
from toolkit.objects import ObjectKey, ObjectRef
from toolkit.policy.references import References

Lookup = Callable[[ObjectKey], Kustomization | None]


def keys(obj: Kustomization) -> Iterator[ObjectKey]:
    """Yield namespace and name of every dependency."""
    for dependency in obj.spec.depends_on:
        yield _key(obj, dependency)


def read(obj: Kustomization) -> Iterator[ObjectKey]:
    """Yield namespace and name of the dependencies whose fields an expression reads."""
    for dependency in obj.spec.depends_on:
        if dependency.ready_expr:
            yield _key(obj, dependency)


def compile_expressions(obj: Kustomization) -> None:
    """Compile every ``readyExpr``.

    Raises:
        StalledError: one does not compile.
    """
    for dependency in obj.spec.depends_on:
        if dependency.ready_expr:
            expressions.ready_expression(dependency.ready_expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Looks dependencies up in the informer and lets a pass through, or not.

    Ready means: observed in its latest generation, Ready=True and, where it is built from the same
    sources, applied at the same revision. A ``readyExpr`` replaces that rule. Without a
    grant, the message about a dependency in another namespace says only that it is not ready,
    whether or not it exists.
    """

    lookup: Lookup
    sources: SourceReader
    policy: References

    def require_ready(self, obj: Kustomization, built_from: Sources) -> None:
        """Return when every dependency is ready.

        Raises:
            WaitingError: a dependency is missing or not ready.
            AccessDeniedError: one lies in another namespace, and may not or may not be read.
        """
        holder = ref_to(obj)
        for dependency in obj.spec.depends_on:
            key = _key(obj, dependency)
            target = ObjectRef(holder.gvk, key.namespace, key.name)
            self.policy.require(holder, target, reads=bool(dependency.ready_expr))
            other = self.lookup(key)
            why = self._unready(obj, other, dependency, built_from) if other else "not found"
            if why:
                shown = self.policy.denial(holder, target) is None
                raise _waiting(key, why if shown else _UNREADY)

    def _unready(
        self,
        obj: Kustomization,
        other: Kustomization,
        dependency: DependencyReference,
        built_from: Sources,
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
        if list(self.sources.references(obj)) != list(self.sources.references(other)):
            return ""
        current = status.last_applied_revision == built_from.revision
        return "" if current else "revision is not up to date"


_UNREADY: Final = "is not ready"


def _waiting(key: ObjectKey, why: str) -> WaitingError:
    """Name the dependency in the condition; the event has Flux's text, which filters match."""
    return WaitingError(
        f"dependency '{key}' {why}", told=Told(event="Dependencies do not meet ready condition")
    )


def _key(obj: Kustomization, dependency: DependencyReference) -> ObjectKey:
    return ObjectKey(dependency.namespace or obj.metadata.namespace, dependency.name)
