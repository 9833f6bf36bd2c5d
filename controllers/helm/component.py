"""The helm component: wires the HelmRelease controller, its watches and its workers."""

from typing import Final

from controllers.applying import wiring
from controllers.applying.clusters import Clusters
from controllers.helm import stages
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.planning import PREFIX, Planner
from controllers.helm.watched import Watched
from controllers.outside import connect
from controllers.planning import wiring as planning
from crds import HELM_RELEASE
from crds.helm import GROUP, HelmRelease
from toolkit.events import Recorder
from toolkit.kube import impersonation, rbac
from toolkit.kube.controller import Controller
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import ObjectKey

ACCOUNT: Final = "helm-controller"
_SOURCE: Final = "source.toolkit.fluxcd.io"

CLUSTER_PERMISSIONS: Final = (
    # The HelmReleases themselves; patch puts the finalizer and the status.
    Rule(groups=(GROUP,), resources=("helmreleases",), verbs=("get", "list", "watch", "patch")),
    Rule(groups=(GROUP,), resources=("helmreleases/status",), verbs=("get", "patch", "update")),
    # The HelmChart of a HelmRelease stands beside its source; only those that it owns are touched.
    Rule(groups=(_SOURCE,), resources=("helmcharts",), verbs=("get", "create", "patch", "delete")),
    *wiring.PERMISSIONS,
    # Say from which chart a write comes; whose write it is, is below.
    Rule(
        groups=("authentication.k8s.io",),
        resources=tuple(
            f"userextras/{impersonation.PREFIX}{claim}" for claim in impersonation.CLAIMS
        ),
        verbs=("impersonate",),
    ),
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
    *planning.PERMISSIONS,
)
TENANT_PERMISSIONS: Final = (
    # Act as the account that a HelmRelease names.
    Rule(groups=("",), resources=("serviceaccounts",), verbs=("impersonate",)),
)
"""What it needs in each namespace that it works for; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY_PERMISSIONS: Final = (
    # Sign in as accounts at clusters that trust our issuer (spec.kubeConfig.configMapRef).
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Granted by the component ``workload-identity`` alone: who has them can be any account."""
NAMESPACE_PERMISSIONS: Final = (
    *rbac.lease(ACCOUNT),
    # The store asks who wants to know what it keeps.
    *rbac.own_token(ACCOUNT),
)

_CONCURRENT: Final = 4


async def start(manager: Manager, options: Options) -> None:
    """Wire the controller into the manager."""
    watched = Watched.follow(manager, options)
    recorder = Recorder(manager.client, controller=ACCOUNT, address=options.events_addr)
    outside = await connect(manager, options)
    remotes = wiring.remotes(manager, options, outside)

    def enqueue(key: ObjectKey, trigger: str) -> None:
        controller.enqueue(key, trigger)

    def lookup(key: ObjectKey) -> HelmRelease | None:
        return controller.informer.get(key)

    clusters = Clusters(manager.client, remotes, enqueue, group=GROUP, manager=MANAGER)
    reconciler, finalizer = await stages.build(
        manager, options, watched, clusters, remotes, lookup=lookup, enqueue=enqueue
    )
    controller = Controller(
        kind=HELM_RELEASE,
        client=manager.client,
        reconcile=reconciler.reconcile,
        finalize=finalizer.finalize,
        options=options.controller(concurrent=_CONCURRENT, namespace=manager.namespace),
        recorder=recorder,
        field_manager=f"gotk-{MANAGER}",
    )
    watched.wake(manager, options, controller, reconciler)
    planner = Planner(
        stages=reconciler,
        run=reconciler.uninstaller.engine.run,
        revisions=planning.retained(manager, options, outside.tokens, ACCOUNT),
    )
    planning.serve_plans(manager, options, HELM_RELEASE, planner, lookup, prefix=PREFIX)
    manager.add_service(recorder.run)
    manager.until_end.push_async_callback(remotes.close)
    manager.add_elected(clusters.run, lease=ACCOUNT)
    manager.add_controller(controller, lease=ACCOUNT)
