"""Build the reconciler and the finalizer of HelmReleases, with their workers and caches.

Helm's actions have their own pool of workers. A hook or a test occupies a worker while it waits, so
the pool has more workers than cores while actions run.
"""

import functools
from typing import Final

from controllers.applying.wiring import Wiring
from controllers.helm.chartcounts import ChartCounts
from controllers.helm.charts import Charts
from controllers.helm.deleting import HelmReleaseFinalizer
from controllers.helm.helmrelease import HelmReleaseReconciler
from controllers.helm.owners import Owners
from controllers.helm.running import engine
from controllers.helm.running.acting import Actor
from controllers.helm.running.engine import Engine
from controllers.helm.running.freshness import Freshness
from controllers.helm.running.memory import Memory
from controllers.helm.running.records import Records
from controllers.helm.running.releasing import Releaser
from controllers.helm.running.uninstalling import Uninstaller
from controllers.helm.settings import Settings
from controllers.helm.sources import ChartReader
from controllers.helm.templates import Templates
from controllers.helm.watched import Watched
from crds import HELM_CHART
from crds.helm import HelmRelease
from toolkit.artifact import scratch
from toolkit.helm import actions
from toolkit.kube.secrets import Secrets
from toolkit.native import cores

_SPARE_WORKERS: Final = 2


async def build(
    wiring: Wiring[HelmRelease], watched: Watched
) -> tuple[HelmReleaseReconciler, HelmReleaseFinalizer]:
    """Return the reconciler and the finalizer."""
    client, shared = wiring.manager.client, watched.shared
    owners = Owners(wiring.lookup, wiring.enqueue)
    settings, memory = Settings.of(wiring.options), Memory()
    records = Records(wiring.enqueue, Freshness(lambda: watched.stored.revision))
    reader = ChartReader(
        {kind: (gvk, informer.get) for kind, (gvk, informer) in shared.sources.items()},
        policy=shared.references,
        sources=shared.policies,
    )
    run, charts = await _workers(wiring)
    acting = Engine(run=run, records=records)
    uninstaller = Uninstaller(engine=acting, owners=owners)
    templates = Templates(
        client=client,
        reader=reader,
        lookup=shared.sources[HELM_CHART.kind][1].get,
        counts=ChartCounts(wiring.options.helm_charts_per_namespace),
    )
    reconciler = HelmReleaseReconciler(
        settings=settings,
        templates=templates,
        sources=reader,
        gate=shared.gate(wiring),
        secrets=Secrets(client),
        charts=charts,
        clusters=wiring.clusters,
        identities=wiring.identities,
        memory=memory,
        records=records,
        accounts=shared.accounts(wiring.options),
        admission=shared.admission,
        owners=owners,
        releaser=Releaser(
            actor=Actor(engine=acting), settings=settings, admission=shared.admission
        ),
        uninstaller=uninstaller,
        known=shared.known,
        stored=lambda: watched.stored.synced,
        serving=watched.serving.name,
    )
    finalizer = HelmReleaseFinalizer(
        clusters=wiring.clusters,
        identities=wiring.identities,
        memory=memory,
        records=records,
        templates=templates,
        uninstaller=uninstaller,
        serving=watched.serving.name,
    )
    return reconciler, finalizer


async def _workers(wiring: Wiring[HelmRelease]) -> tuple[engine.Run, Charts]:
    """Return the function that runs actions, and the cache of charts for them."""
    copies = scratch.parent("helm")
    pool = actions.start(size=cores.available(), spares=_SPARE_WORKERS, reads=(copies,))
    wiring.manager.until_end.push_async_callback(pool.close)
    run: engine.Run = functools.partial(actions.run, pool)
    return run, Charts(await wiring.fetcher(copies), functools.partial(engine.load, run))
