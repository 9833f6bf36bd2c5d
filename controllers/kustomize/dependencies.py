"""Whether the Kustomizations named in ``spec.dependsOn`` allow this one to proceed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from controllers.kustomize.sources import SourceReader, Sources, ref_to
from crds.kustomize import Kustomization
from crds.kustomize_parts import DependencyReference
from toolkit.apply import expressions
from toolkit.errors import WaitingError
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
    sources, applied at the same revision. A ``readyExpr`` replaces that rule. Without a grant no
    more is told of a dependency in another namespace than that it is not ready: not whether it
    exists.
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
            if other is None and self.policy.denial(holder, target) is None:
                raise WaitingError(f"dependency '{key}' not found")
            if other is None or not self._ready(obj, other, dependency, built_from):
                raise WaitingError(f"dependency '{key}' is not ready")

    def _ready(
        self,
        obj: Kustomization,
        other: Kustomization,
        dependency: DependencyReference,
        built_from: Sources,
    ) -> bool:
        if dependency.ready_expr:
            holds = expressions.ready_expression(dependency.ready_expr)
            return holds(msgspec.to_builtins(obj), msgspec.to_builtins(other))
        status = other.status
        if status.observed_generation != other.metadata.generation:
            return False
        if not any(c.type == "Ready" and c.status == "True" for c in status.conditions):
            return False
        if list(self.sources.references(obj)) != list(self.sources.references(other)):
            return True
        return status.last_applied_revision == built_from.revision


def _key(obj: Kustomization, dependency: DependencyReference) -> ObjectKey:
    return ObjectKey(dependency.namespace or obj.metadata.namespace, dependency.name)
