"""The informers that reconciliations of every applier read, and whose events start them."""

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from controllers import grants
from controllers.applying import dependencies
from controllers.applying.accounts import Accounts
from controllers.applying.admission import Admission, decrypting
from controllers.applying.dependencies import Dependent, Gate
from controllers.applying.triggers import Triggers, Used
from controllers.applying.wiring import Wiring
from controllers.sourcepolicies import SourcePolicies
from crds.helm import HelmRelease
from crds.kind import Kind
from crds.kustomize import Kustomization
from toolkit.kube import caches
from toolkit.kube.informer import Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.secrets import CONFIG_MAP, SECRET
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy import references
from toolkit.policy.grants import Grants
from toolkit.policy.references import References

T = TypeVar("T", Kustomization, HelmRelease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The informers of a process that runs one kind of applier.

    - ``sources`` are by kind.
    - ``others`` has the objects of the other kind of applier, which may be dependencies.
    - ``admission`` tells whether a webhook of this cluster decrypts encrypted Secrets.
    """

    granted: Grants
    policies: SourcePolicies
    references: References
    sources: Mapping[str, tuple[GroupVersionKind, Informer[Any]]]
    others: Later[Dependent]
    admission: Admission

    @classmethod
    def follow(
        cls,
        manager: Manager,
        options: Options,
        *,
        sources: Iterable[Kind[Any]],
        other: Kind[Any],
    ) -> "Watched":
        """Return the informers, which the manager runs."""
        granted = grants.follow(manager, options)
        admission = Admission(manager.client)
        manager.add_informer(admission.informer)
        return cls(
            granted=granted,
            policies=SourcePolicies.follow(manager),
            references=references.under(granted, options),
            sources={kind.kind: _source(manager, options, kind) for kind in sources},
            others=dependencies.follow(manager, options, other),
            admission=admission,
        )

    @property
    def known(self) -> Callable[[], Awaitable[None]]:
        """Return a function that waits until grants and SourcePolicies have been listed once."""
        return functools.partial(caches.complete, self.granted, self.policies)

    def gate(self, wiring: Wiring[T]) -> Gate:
        """Return the gate that makes objects of the kind wait for their dependencies."""
        own = GroupVersionKind(*wiring.kind.gvk)
        return Gate(
            lookups={own: wiring.lookup, self.others.gvk: self.others.get},
            policy=self.references,
            evaluates=wiring.evaluates,
            later=(self.others,),
        )

    def accounts(self, options: Options) -> Accounts:
        """Return the rule for namespaces whose appliers must name an account."""
        return Accounts(labels=self.policies.labels, default=options.default_service_account)

    def wake(
        self, wiring: Wiring[T], refusals: grants.Refusals, *, uses: Callable[[T], Used]
    ) -> None:
        """Subscribe to all informers, so that their events enqueue the appliers concerned."""
        own = wiring.controller.informer
        triggers = Triggers(GroupVersionKind(*wiring.kind.gvk), wiring.enqueue, refusals, uses=uses)
        own.subscribe(triggers.applier)
        for gvk, informer in self.sources.values():
            informer.subscribe(triggers.source(gvk))
        _configs(wiring, triggers)
        triggers.dependencies(self.others)
        self.granted.subscribe(triggers.grant)
        self.policies.subscribe(triggers.policy)
        self.admission.wake(lambda: decrypting(own), wiring.enqueue)


def _source(
    manager: Manager, options: Options, kind: Kind[Any]
) -> tuple[GroupVersionKind, Informer[Any]]:
    gvk = GroupVersionKind(*kind.gvk)
    informer: Informer[Any] = Informer(
        manager.client,
        gvk,
        decode=msgspec.json.Decoder(kind.model).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    manager.add_informer(informer)
    return gvk, informer


def _configs(wiring: Wiring[T], triggers: Triggers[T]) -> None:
    """Have changes of labelled ConfigMaps and Secrets wake the appliers that use them."""
    for gvk in (CONFIG_MAP, SECRET):
        informer: Informer[Json] = Informer(
            wiring.manager.client,
            gvk,
            decode=msgspec.json.decode,
            label_selector=wiring.options.watch_configs_label_selector,
            metadata_only=True,
        )
        informer.subscribe(triggers.config(gvk))
        wiring.manager.add_informer(informer)
