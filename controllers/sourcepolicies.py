"""Hold sources against the SourcePolicies of their namespaces, and wake them when those change.

Nothing is fetched or used before policies and namespaces have been read once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from crds import SOURCE_POLICY
from crds.policy_source import SourcePolicy
from toolkit.errors import AccessDeniedError, WaitingError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig
from toolkit.policy import selectors, sources, unreadable
from toolkit.policy.sources import Violation

NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_KIND: Final = GroupVersionKind(*SOURCE_POLICY.gvk)
_AGAIN_SECONDS: Final = 1.0

PERMISSIONS: Final = (
    # Which sources may exist where; policies select namespaces by their labels.
    Rule(
        groups=(SOURCE_POLICY.group,),
        resources=(SOURCE_POLICY.plural,),
        verbs=("get", "list", "watch"),
    ),
    Rule(groups=("",), resources=("namespaces",), verbs=("get", "list", "watch")),
)

Changed = Callable[[str], None]
"""Receives a namespace whose objects may be affected; empty means all namespaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePolicies:
    """The policies of the cluster and the labels of its namespaces, as last seen."""

    policies: Informer[SourcePolicy]
    namespaces: Informer[Json]
    installed: str
    _handlers: list[Changed] = field(default_factory=list)

    @classmethod
    def follow(cls, manager: Manager) -> "SourcePolicies":
        """Return them, kept by informers of the manager's."""
        policies: Informer[SourcePolicy] = Informer(
            manager.client,
            _KIND,
            decode=msgspec.json.Decoder(SourcePolicy).decode,
            stand_in=unreadable.source_policy,
        )
        namespaces: Informer[Json] = Informer(
            manager.client, NAMESPACE, decode=msgspec.json.decode, metadata_only=True
        )
        made = cls(policies=policies, namespaces=namespaces, installed=manager.namespace)
        policies.subscribe(made._policy_changed)
        namespaces.subscribe(made._namespace_changed)
        for informer in (policies, namespaces):
            manager.add_informer(informer)
        return made

    @property
    def synced(self) -> bool:
        """Tell whether policies and namespaces are read."""
        return self.policies.synced and self.namespaces.synced

    async def wait_synced(self) -> None:
        """Wait until they are."""
        await self.policies.wait_synced()
        await self.namespaces.wait_synced()

    def subscribe(self, handler: Changed) -> None:
        """Call ``handler`` when policies or namespaces have changed."""
        self._handlers.append(handler)

    def labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace.

        Raises:
            WaitingError: the namespaces are not read yet.
        """
        self._require_known()
        found = self.namespaces.get(ObjectKey("", namespace))
        labels: Mapping[str, str] = dig(found or {}, "metadata", "labels", default={})
        return labels

    def check(self, obj: Any) -> tuple[Violation, ...]:
        """Require that policies allow a source; return violations that are not denied.

        Raises:
            AccessDeniedError: a policy denies it.
            WaitingError: the policies are not read yet.
        """
        policies = self._applicable(obj)
        found = sources.judge(msgspec.to_builtins(obj), policies) if policies else ()
        return _permitted(obj, found)

    def check_artifact(self, obj: Any, metadata: Mapping[str, str]) -> tuple[Violation, ...]:
        """Require that policies allow an artifact with these metadata; otherwise as ``check``.

        The metadata say where the artifact was fetched from; the present spec of ``obj`` does not
        count.
        """
        policies = self._applicable(obj)
        return _permitted(obj, sources.judge_artifact(obj.kind, metadata, policies))

    def _applicable(self, obj: Any) -> tuple[SourcePolicy, ...]:
        self._require_known()
        policies = self.policies.items()
        if not policies:
            return ()
        namespace = obj.metadata.namespace
        return selectors.applicable(
            policies.values(),
            namespace=namespace,
            labels=self.labels(namespace),
            installed=self.installed,
        )

    def _require_known(self) -> None:
        if not self.synced:
            raise WaitingError(
                "the SourcePolicies of the cluster are not read yet",
                reason="DependencyNotReady",
                retry_after=_AGAIN_SECONDS,
            )

    def _policy_changed(self, change: Change[SourcePolicy]) -> None:
        before, after = (each and each.spec for each in (change.old, change.new))
        if before != after:
            self._tell("")

    def _namespace_changed(self, change: Change[Json]) -> None:
        before, after = (dig(each or {}, "metadata", "labels") for each in (change.old, change.new))
        if before != after:
            self._tell(change.key.name)

    def _tell(self, namespace: str) -> None:
        for handler in self._handlers:
            handler(namespace)


def _permitted(obj: Any, found: tuple[Violation, ...]) -> tuple[Violation, ...]:
    forbidding = sources.enforced(found)
    if forbidding:
        name = f"{obj.kind} '{obj.metadata.namespace}/{obj.metadata.name}'"
        raise AccessDeniedError(f"{name}: {'; '.join(map(str, forbidding))}")
    return found
