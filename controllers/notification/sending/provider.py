"""The Provider reconciler: whether a Provider is valid, and whether its service accepts events.

``Ready`` is about the Provider: its Secrets exist, and have what the type needs. ``Delivering`` is
about the service: it has the result of the last delivery.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from controllers.notification.sending.sender import Health
from controllers.notification.sending.targets import Place
from crds.notification import Provider
from toolkit.kube import conditions
from toolkit.kube.reconciliation import Outcome, Reconciliation
from toolkit.objects import ObjectKey

DELIVERING: Final = "Delivering"


class ProviderReconciler:
    """Writes the conditions of a Provider."""

    def __init__(
        self,
        place: Callable[[Provider], Awaitable[Place]],
        health: Callable[[ObjectKey], Health | None],
    ) -> None:
        self._place = place
        self._health = health

    async def reconcile(self, rec: Reconciliation[Provider]) -> Outcome:
        """Require that the Provider is usable, and set the condition ``Delivering``."""
        self._tell(rec)
        await self._place(rec.obj)
        return Outcome(message="Initialized", quiet=True)

    async def finalize(self, _rec: Reconciliation[Provider]) -> None:
        """Do nothing: the sender drops the deliveries of a Provider that was deleted."""

    def _tell(self, rec: Reconciliation[Provider]) -> None:
        health = self._health(rec.key)
        if health is None:
            return
        if not health.problem:
            rec.mark(DELIVERING, "True", health.reason, "the service took the last event")
            return
        waiting = f"; {health.waiting} events wait" if health.waiting > 1 else ""
        message = conditions.shortened(f"{health.problem}{waiting}")
        rec.mark(DELIVERING, "False", health.reason, message)
