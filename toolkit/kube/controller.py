"""The controller: one loop that turns changes into passes, and passes into status.

A reconciler is a function over a ``Reconciliation`` that returns an ``Outcome`` or raises an error
of ``toolkit.errors``. Everything around it is here and nowhere else: finalizer, suspension,
requested reconciles, conditions, at most two status patches a pass, events, metrics, requeues.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.kube.reconciliation import EventSink, Outcome, Reconcilable, Reconciliation
from toolkit.objects import ObjectKey

__all__ = ["Controller", "ControllerOptions", "Outcome", "Reconciliation"]

FINALIZER: Final = "finalizers.fluxcd.io"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"

T = TypeVar("T", bound=Reconcilable)
T_co = TypeVar("T_co", covariant=True)


class ServedKind(Protocol[T_co]):
    """What the controller needs of a ``crds.kind.Kind``."""

    @property
    def model(self) -> type[T_co]:
        """Return the struct that decodes the objects."""

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Settings of one controller; times in seconds, ``interval_jitter`` a fraction."""

    concurrent: int = 4
    min_retry_delay: float = 0.75
    max_retry_delay: float = 900.0
    requeue_dependency: float = 30.0
    interval_jitter: float = 0.05
    grace: float = 30.0
    namespace: str = ""
    label_selector: str = ""


class Controller(Generic[T]):
    """Runs the passes of one kind."""

    informer: Informer[T]

    def __init__(  # noqa: PLR0913 - the parts a controller is made of
        self,
        *,
        kind: ServedKind[T],
        client: Client,
        reconcile: Callable[[Reconciliation[T]], Awaitable[Outcome]],
        finalize: Callable[[Reconciliation[T]], Awaitable[None]],
        options: ControllerOptions,
        recorder: EventSink,
        field_manager: str,
        retry_interval: Callable[[T], float | None] = lambda _: None,
    ) -> None:
        raise NotImplementedError

    def enqueue(self, key: ObjectKey, trigger: str, *, after: float = 0.0) -> None:
        """Ask for a pass; replaces what the same trigger had planned. Unknown keys are ignored."""

    async def run(self) -> None:
        """Work until cancelled (passes are cancelled at once) or ``stop`` has drained it.

        The informer is run by the manager, so that followers have warm caches.
        """

    async def stop(self) -> None:
        """Take no new work, let passes finish for ``options.grace`` seconds, cancel the rest."""
