"""One pass over one object: what a reconciler is given, and what it gives back.

``Reconciliation`` is a draft. Status fields, conditions and events are collected on it, and
``controller`` writes them, whether the pass ends well or not.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, Literal, Protocol, TypeVar

from crds.meta import ObjectMeta
from toolkit.objects import ObjectKey, ObjectRef

Severity = Literal["info", "error", "trace"]

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class Reconcilable(Protocol):
    """What every reconciled model has (``crds``)."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return name, namespace, generation and the like."""


T = TypeVar("T", bound=Reconcilable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling about an object; ``trace`` is not forwarded to notifications."""

    ref: ObjectRef
    meta: ObjectMeta
    severity: Severity
    reason: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class EventSink(Protocol):
    """Where events go (``toolkit.events.Recorder``)."""

    def emit(self, event: Event) -> None:
        """Record one event without waiting for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a pass ended well.

    ``requeue_after`` is in seconds, the controller adds the jitter; None plans nothing.
    ``quiet``: nothing changed, so neither status nor event is written unless the last pass left
    something to tidy. ``ready="Unknown"``: the object goes on progressing without a worker.
    """

    message: str
    reason: str = "Succeeded"
    ready: Literal["True", "Unknown"] = "True"
    requeue_after: float | None = None
    quiet: bool = False


class Reconciliation(Generic[T]):
    """The draft of one pass: the object, why it is reconciled, and what is to be written."""

    obj: T
    key: ObjectKey
    ref: ObjectRef
    triggers: frozenset[str]
    log: logging.LoggerAdapter[logging.Logger]

    def status(self, fields: Mapping[str, object]) -> None:
        """Set status fields by their JSON names; None removes one. Written even if the pass fails.

        Values may be structs of ``crds``.
        """

    def mark(self, type: str, status: str, reason: str, message: str) -> None:  # noqa: A002
        """Set a condition."""

    def unmark(self, type: str) -> None:  # noqa: A002
        """Remove a condition."""

    def event(
        self,
        severity: Severity,
        reason: str,
        message: str,
        metadata: Mapping[str, str] = _EMPTY,
    ) -> None:
        """Emit an event about the object."""

    async def progress(self, message: str, *, reason: str = "Progressing") -> None:
        """Show Reconciling=True, Ready=Unknown: the first call patches status, later ones log."""
