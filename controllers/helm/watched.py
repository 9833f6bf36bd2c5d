"""What the passes of HelmReleases look up, and who wakes them."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controllers import grants
from controllers.applying import dependencies, wiring
from controllers.applying.admission import Admission, decrypting
from controllers.applying.dependencies import Dependent
from controllers.applying.triggers import Triggers
from controllers.grants import Refusals
from controllers.helm import serving, uses
from controllers.helm.helmrelease import HelmReleaseReconciler
from controllers.helm.running import records
from controllers.helm.serving import Serving
from controllers.helm.sources import KIND
from controllers.sourcepolicies import SourcePolicies
from crds import EXTERNAL_ARTIFACT, HELM_CHART, KUSTOMIZATION, OCI_REPOSITORY
from crds.helm import HelmRelease
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change, Informer
from toolkit.kube.later import Later
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.secrets import SECRET
from toolkit.objects import GroupVersionKind
from toolkit.policy.grants import Grants

SOURCES: Final = (HELM_CHART, OCI_REPOSITORY, EXTERNAL_ARTIFACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The informers; ``stored`` has the records of Helm, without their content.

    ``admission`` shows whether encrypted Secrets are decrypted here.
    """

    granted: Grants
    policies: SourcePolicies
    sources: Mapping[str, tuple[GroupVersionKind, Informer[Any]]]
    kustomizations: Later[Dependent]
    stored: Informer[str]
    serving: Serving
    admission: Admission

    @classmethod
    def follow(cls, manager: Manager, options: Options) -> "Watched":
        """Return them, run by the manager."""
        stored: Informer[str] = Informer(
            manager.client,
            SECRET,
            decode=records.version_of,
            namespace="" if options.watch_all_namespaces else manager.namespace,
            label_selector=records.SELECTOR,
            metadata_only=True,
        )
        manager.add_informer(stored)
        admission = Admission(manager.client)
        manager.add_informer(admission.informer)
        return cls(
            granted=grants.follow(manager, options),
            policies=SourcePolicies.follow(manager),
            sources=wiring.sources(manager, options, SOURCES),
            kustomizations=dependencies.follow(manager, options, KUSTOMIZATION),
            stored=stored,
            serving=serving.follow(manager),
            admission=admission,
        )

    def wake(
        self,
        manager: Manager,
        options: Options,
        controller: Controller[HelmRelease],
        reconciler: HelmReleaseReconciler,
    ) -> None:
        """Have all that HelmReleases use wake their users."""
        triggers = Triggers(
            KIND,
            controller.enqueue,
            Refusals(),
            uses=functools.partial(uses.used, reader=reconciler.sources),
        )
        controller.informer.subscribe(triggers.applier)
        controller.informer.subscribe(reconciler.owners.changed)
        controller.informer.subscribe(_forget_gone(reconciler))
        for gvk, informer in self.sources.values():
            informer.subscribe(triggers.source(gvk))
        wiring.configs(manager, options, triggers)
        triggers.dependencies(self.kustomizations)
        self.granted.subscribe(triggers.grant)
        self.policies.subscribe(triggers.policy)
        self.stored.subscribe(reconciler.records.changed)
        self.admission.wake(lambda: decrypting(controller.informer), controller.enqueue)


def _forget_gone(reconciler: HelmReleaseReconciler) -> Callable[[Change[HelmRelease]], None]:
    """Drop what is known of an object that went without its finalizer."""

    def handle(change: Change[HelmRelease]) -> None:
        if change.new is None:
            reconciler.clusters.forget(change.key)
            reconciler.memory.forget(change.key)
            reconciler.records.forget(change.key)
            reconciler.templates.forget(change.key)

    return handle
