"""The kustomize component: wires the Kustomization controller, its watches and its workers."""

from typing import Final

from controllers.applying import permissions
from controllers.applying.watched import Watched
from controllers.applying.wiring import Wiring
from controllers.kustomize import stages
from controllers.kustomize.plan import Planner
from controllers.planning import wiring as planning
from crds import HELM_RELEASE, KUSTOMIZATION
from toolkit.apply.options import MANAGER
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options

ACCOUNT: Final = "kustomize-controller"

CLUSTER_PERMISSIONS: Final = (*permissions.cluster(KUSTOMIZATION), *planning.PERMISSIONS)
TENANT_PERMISSIONS: Final = permissions.TENANT
WORKLOAD_IDENTITY_PERMISSIONS: Final = permissions.WORKLOAD_IDENTITY
NAMESPACE_PERMISSIONS: Final = permissions.namespace(ACCOUNT)


async def start(manager: Manager, options: Options) -> None:
    """Wire the controller into the manager."""
    watched = Watched.follow(manager, options, sources=stages.SOURCES, other=HELM_RELEASE)
    wiring = await Wiring.connect(
        manager, options, KUSTOMIZATION, account=ACCOUNT, field_manager=MANAGER
    )
    reconciler, finalizer = await stages.build(wiring, watched)
    wiring.control(
        reconcile=reconciler.reconcile,
        finalize=finalizer.finalize,
        retry_interval=lambda obj: obj.spec.retry_seconds,
    )
    stages.wake(wiring, watched, reconciler)
    planner = Planner(
        stages=reconciler,
        revisions=planning.retained(manager, options, wiring.outside.tokens, ACCOUNT),
    )
    planning.serve_plans(manager, options, KUSTOMIZATION, planner, wiring.lookup)
