"""Whether what ``spec.dependsOn`` names allows a HelmRelease to proceed.

HelmReleases and Kustomizations can be waited for alike: they are ready when their latest generation
was observed and is. A ``readyExpr`` replaces that rule.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controllers.helm.sources import ref_to
from crds import HELM_RELEASE, KUSTOMIZATION
from crds.helm import HelmRelease
from crds.helm_parts import DependencyReference
from toolkit.apply import expressions
from toolkit.errors import WaitingError
from toolkit.kube.reconciliation import Reconcilable
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References

Lookup = Callable[[ObjectKey], Reconcilable | None]

KINDS: Final[Mapping[str, GroupVersionKind]] = {
    kind.kind: GroupVersionKind(*kind.gvk) for kind in (HELM_RELEASE, KUSTOMIZATION)
}
_UNREADY: Final = "is not ready"


def references(obj: HelmRelease) -> Iterator[ObjectRef]:
    """Yield every dependency."""
    for dependency in obj.spec.depends_on:
        yield _ref(obj, dependency)


def read(obj: HelmRelease) -> Iterator[ObjectRef]:
    """Yield the dependencies whose fields an expression reads."""
    for dependency in obj.spec.depends_on:
        if dependency.ready_expr:
            yield _ref(obj, dependency)


def compile_expressions(obj: HelmRelease) -> None:
    """Compile every ``readyExpr``.

    Raises:
        StalledError: one does not compile.
    """
    for dependency in obj.spec.depends_on:
        if dependency.ready_expr:
            expressions.ready_expression(dependency.ready_expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Looks dependencies up in informers, by their kind, and lets a pass through, or not.

    Without a grant, the message about a dependency in another namespace says only that it is not
    ready, whether or not it exists.
    """

    lookups: Mapping[str, Lookup]
    policy: References

    def require_ready(self, obj: HelmRelease) -> None:
        """Return when every dependency is ready.

        Raises:
            WaitingError: a dependency is missing or not ready.
            AccessDeniedError: one lies in another namespace, and may not or may not be read.
        """
        holder = ref_to(obj)
        for dependency in obj.spec.depends_on:
            target = _ref(obj, dependency)
            self.policy.require(holder, target, reads=bool(dependency.ready_expr))
            other = self.lookups[dependency.kind](target.key)
            why = _unready(obj, other, dependency) if other else "not found"
            if why:
                shown = self.policy.denial(holder, target) is None
                raise _waiting(target, why if shown else _UNREADY)


def _unready(obj: HelmRelease, other: Any, dependency: DependencyReference) -> str:
    """Return what a dependency lacks; nothing if it is ready."""
    if dependency.ready_expr:
        holds = expressions.ready_expression(dependency.ready_expr)
        ready = holds(msgspec.to_builtins(obj), msgspec.to_builtins(other))
        return "" if ready else "is not ready according to readyExpr eval"
    observed = other.status.observed_generation == other.metadata.generation
    ready = any(c.type == "Ready" and c.status == "True" for c in other.status.conditions)
    return "" if observed and ready else _UNREADY


def _waiting(target: ObjectRef, why: str) -> WaitingError:
    if why == "not found":
        return WaitingError(f"unable to get '{target.key}' dependency: {why}")
    return WaitingError(f"dependency '{target.key}' {why}")


def _ref(obj: HelmRelease, dependency: DependencyReference) -> ObjectRef:
    namespace = dependency.namespace or obj.metadata.namespace
    return ObjectRef(KINDS[dependency.kind], namespace, dependency.name)
