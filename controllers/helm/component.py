"""The helm component: wires the HelmRelease controller, its watches and its workers."""

from typing import Final

from controllers.applying import permissions
from controllers.applying.wiring import Wiring
from controllers.helm import stages
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.planning import PREFIX, Planner
from controllers.helm.watched import Watched
from controllers.planning import wiring as planning
from crds import HELM_RELEASE
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule

ACCOUNT: Final = "helm-controller"
_SOURCE: Final = "source.toolkit.fluxcd.io"

CLUSTER_PERMISSIONS: Final = (
    *permissions.cluster(HELM_RELEASE),
    # HelmCharts are created in the namespaces of their sources; only owned ones are changed.
    Rule(groups=(_SOURCE,), resources=("helmcharts",), verbs=("get", "create", "patch", "delete")),
    *planning.PERMISSIONS,
)
TENANT_PERMISSIONS: Final = permissions.TENANT
WORKLOAD_IDENTITY_PERMISSIONS: Final = permissions.WORKLOAD_IDENTITY
NAMESPACE_PERMISSIONS: Final = permissions.namespace(ACCOUNT)


async def start(manager: Manager, options: Options) -> None:
    """Wire the controller into the manager."""
    watched = Watched.follow(manager, options)
    wiring = await Wiring.connect(
        manager, options, HELM_RELEASE, account=ACCOUNT, field_manager=MANAGER
    )
    reconciler, finalizer = await stages.build(wiring, watched)
    wiring.control(reconcile=reconciler.reconcile, finalize=finalizer.finalize)
    watched.wake(wiring, reconciler)
    planner = Planner(
        stages=reconciler,
        run=reconciler.uninstaller.engine.run,
        revisions=planning.retained(manager, options, wiring.outside.tokens, ACCOUNT),
    )
    planning.serve_plans(manager, options, HELM_RELEASE, planner, wiring.lookup, prefix=PREFIX)
