"""Make what reconciles and what finalizes HelmReleases, with the workers and caches that they use.

Actions have a pool of workers of their own. A hook or a test holds a worker while it waits, so
there are more of them than cores while actions last.
"""

import functools
import os
from collections.abc import Callable
from typing import Final

from controllers.applying.accounts import Accounts
from controllers.applying.clusters import Clusters
from controllers.applying.dependencies import KINDS, Gate
from controllers.applying.identity import Identities
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
from controllers.helm.sources import KIND, ChartReader
from controllers.helm.templates import Templates
from controllers.helm.watched import Watched
from controllers.waking import Enqueue
from crds import HELM_CHART, HELM_RELEASE, KUSTOMIZATION
from crds.helm import HelmRelease
from toolkit.artifact import scratch
from toolkit.artifact.fetch import Fetcher
from toolkit.helm import actions
from toolkit.kube import caches
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.remote import RemoteClients
from toolkit.kube.secrets import Secrets
from toolkit.native import cores
from toolkit.objects import ObjectKey
from toolkit.policy import references

_SPARE_WORKERS: Final = 2


async def build(  # noqa: PLR0913 - what the passes are made of
    manager: Manager,
    options: Options,
    watched: Watched,
    clusters: Clusters,
    remotes: RemoteClients,
    *,
    lookup: Callable[[ObjectKey], HelmRelease | None],
    enqueue: Enqueue,
) -> tuple[HelmReleaseReconciler, HelmReleaseFinalizer]:
    """Return what reconciles and what finalizes."""
    owners = Owners(lookup, enqueue)
    settings, memory = Settings.of(options), Memory()
    records = Records(enqueue, Freshness(lambda: watched.stored.revision))
    policy = references.under(watched.granted, options)
    reader = ChartReader(
        {kind: (gvk, informer.get) for kind, (gvk, informer) in watched.sources.items()},
        policy=policy,
        sources=watched.policies,
    )
    run, charts = await _workers(manager, options)
    acting = Engine(run=run, records=records)
    uninstaller = Uninstaller(engine=acting, owners=owners)
    identities = Identities.of(HELM_RELEASE.kind, manager, options, remotes)
    templates = Templates(
        client=manager.client, reader=reader, lookup=watched.sources[HELM_CHART.kind][1].get
    )
    lookups = {KIND: lookup, KINDS[KUSTOMIZATION.kind]: watched.kustomizations.get}
    reconciler = HelmReleaseReconciler(
        settings=settings,
        templates=templates,
        sources=reader,
        gate=Gate(lookups=lookups, policy=policy, later=(watched.kustomizations,)),
        secrets=Secrets(manager.client),
        charts=charts,
        clusters=clusters,
        identities=identities,
        memory=memory,
        records=records,
        accounts=Accounts(labels=watched.policies.labels, default=options.default_service_account),
        admission=watched.admission,
        owners=owners,
        releaser=Releaser(
            actor=Actor(engine=acting), settings=settings, admission=watched.admission
        ),
        uninstaller=uninstaller,
        known=functools.partial(caches.complete, watched.granted, watched.policies),
        stored=lambda: watched.stored.synced,
        serving=watched.serving.name,
    )
    finalizer = HelmReleaseFinalizer(
        clusters=clusters,
        identities=identities,
        memory=memory,
        records=records,
        templates=templates,
        uninstaller=uninstaller,
        serving=watched.serving.name,
    )
    return reconciler, finalizer


async def _workers(manager: Manager, options: Options) -> tuple[engine.Run, Charts]:
    """Return what runs actions, and what opens charts for them."""
    copies = scratch.parent("helm")
    pool = actions.start(size=cores.available(), spares=_SPARE_WORKERS, reads=(copies,))
    fetcher = Fetcher(
        copies,
        host_override=os.environ.get("SOURCE_CONTROLLER_LOCALHOST", ""),
        retries=options.http_retry,
    )
    manager.until_end.push_async_callback(pool.close)
    await manager.until_end.enter_async_context(fetcher)
    run: engine.Run = functools.partial(actions.run, pool)
    return run, Charts(fetcher, functools.partial(engine.load, run))
