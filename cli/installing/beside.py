"""What must not run in a cluster beside ``penstock up``: other controllers of the same kinds."""

from collections.abc import Callable, Iterable
from typing import Final

from cli import errors, sole
from cli.installing import flux
from cli.installing.cluster import DEPLOYMENT, listed
from toolkit.kube.client import Client
from toolkit.objects import Json, key_of

_ASKED: Final = frozenset({"webhook", "penstock-apiserver"})
"""Deployments that reconcile nothing; without ``--gate`` an ``up`` has no such process."""


async def require_free(
    api: Client, *, embedded: bool, gate: bool, mine: str, report: Callable[[str], None]
) -> None:
    """Require that nothing else in the cluster reconciles the same objects.

    An embedded control plane has no nodes: Deployments in it do not run.

    Raises:
        UsageError: controllers of an installation or of Flux, or another ``up``, do.
    """
    if not embedded:
        require_no_controllers(
            await listed(api, DEPLOYMENT, label_selector=flux.SELECTOR), gate=gate
        )
    await sole.require_no_other(api, mine=mine, report=report)


def require_no_controllers(deployments: Iterable[Json], *, gate: bool) -> None:
    """Require that no Deployment with replicas runs what ``up`` would run.

    Raises:
        UsageError: one does.
    """
    for found in deployments:
        if not flux.competes(found):
            continue
        key = key_of(found)
        if not flux.is_ours(found):
            raise errors.UsageError(
                f"Deployment {key} of Flux reconciles the same objects: scale it and Flux's other "
                "controllers to 0 replicas first, or take over with `penstock migrate --from-flux`"
            )
        if gate or key.name not in _ASKED:
            raise errors.UsageError(
                f"Penstock is installed in this cluster: Deployment {key} reconciles the same "
                f"objects; remove it with `penstock uninstall -n {key.namespace}`, or scale all "
                "its Deployments to 0 replicas first"
            )
