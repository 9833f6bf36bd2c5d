"""The informers that reconciliations of HelmReleases read, and whose events start them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controllers.applying import watched
from controllers.applying.wiring import Wiring
from controllers.grants import Refusals
from controllers.helm import serving, uses
from controllers.helm.deciding import charttemplate
from controllers.helm.helmrelease import HelmReleaseReconciler
from controllers.helm.running import records
from controllers.helm.serving import Serving
from crds import EXTERNAL_ARTIFACT, HELM_CHART, KUSTOMIZATION, OCI_REPOSITORY
from crds.helm import HelmRelease
from crds.source_helm import HelmChart
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.secrets import SECRET

SOURCES: Final = (HELM_CHART, OCI_REPOSITORY, EXTERNAL_ARTIFACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The informers; ``stored`` has the metadata of Helm's records, without their content."""

    shared: watched.Watched
    stored: Informer[str]
    serving: Serving

    @classmethod
    def follow(cls, manager: Manager, options: Options) -> "Watched":
        """Return the informers, which the manager runs."""
        stored: Informer[str] = Informer(
            manager.client,
            SECRET,
            decode=records.version_of,
            namespace="" if options.watch_all_namespaces else manager.namespace,
            label_selector=records.SELECTOR,
            metadata_only=True,
        )
        manager.add_informer(stored)
        return cls(
            shared=watched.Watched.follow(manager, options, sources=SOURCES, other=KUSTOMIZATION),
            stored=stored,
            serving=serving.follow(manager),
        )

    def wake(self, wiring: Wiring[HelmRelease], reconciler: HelmReleaseReconciler) -> None:
        """Subscribe to all informers, so that their events enqueue the HelmReleases concerned."""
        self.shared.wake(
            wiring, Refusals(), uses=functools.partial(uses.used, reader=reconciler.sources)
        )
        wiring.controller.informer.subscribe(reconciler.owners.changed)
        wiring.controller.informer.subscribe(_forget_gone(reconciler))
        self.shared.sources[HELM_CHART.kind][1].subscribe(reconciler.templates.counts.saw)
        self.shared.sources[HELM_CHART.kind][1].subscribe(_correct(wiring))
        self.stored.subscribe(reconciler.records.changed)


def _correct(wiring: Wiring[HelmRelease]) -> Callable[[Change[HelmChart]], None]:
    """Return the handler that wakes a HelmRelease whose HelmChart others have changed or deleted.

    The labels of the old version count, because others can change the labels, too.
    """

    def handle(change: Change[HelmChart]) -> None:
        known = change.old or change.new
        owner = charttemplate.owner(known) if known else change.key
        obj = wiring.lookup(owner)
        if obj is None or charttemplate.key(obj) != change.key or obj.metadata.deletion_timestamp:
            return
        wanted = charttemplate.desired(obj)
        if wanted and not (change.new and charttemplate.stands(change.new, wanted)):
            wiring.enqueue(owner, "source")

    return handle


def _forget_gone(reconciler: HelmReleaseReconciler) -> Callable[[Change[HelmRelease]], None]:
    """Return the handler that drops the caches of a HelmRelease deleted without its finalizer."""

    def handle(change: Change[HelmRelease]) -> None:
        if change.new is None:
            reconciler.clusters.forget(change.key)
            reconciler.memory.forget(change.key)
            reconciler.records.forget(change.key)
            reconciler.templates.forget(change.key)

    return handle
