"""One reconciliation of one object: the input and the output of a reconciler.

``Reconciliation`` is a draft: it collects status fields, conditions and events. ``controller``
writes them, after a success and after an error.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from crds import unwritten
from crds.meta import ObjectMeta
from toolkit import telemetry
from toolkit.errors import PenstockError, StalledError
from toolkit.kube import conditions, patch
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

FINALIZER: Final = "finalizers.fluxcd.io"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"

Severity = Literal["info", "error", "trace"]

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class Suspendable(Protocol):
    """The part of every spec that the controller reads."""

    @property
    def suspend(self) -> bool:
        """Tell whether the user has suspended reconciliations."""


class Reconcilable(Protocol):
    """The fields of every reconciled model (``crds``)."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return name, namespace, generation and the like."""

    @property
    def spec(self) -> Suspendable:
        """Return the spec."""

    @property
    def status(self) -> Any:
        """Return the last written status, a struct of ``crds``."""


T = TypeVar("T", bound=Reconcilable)
R = TypeVar("R")

_MOMENT: Final = 1.0
"""Seconds that work may take before the status shows that it is in progress."""


def require_spec(obj: Reconcilable) -> None:
    """Require that the object was written with a spec, which the definitions do not.

    Raises:
        StalledError: it has none (reason ValidationFailed).
    """
    if fields := unwritten.missing(obj.spec):
        raise StalledError(
            f"spec is missing, so there is nothing to do: write one with {', '.join(fields)}",
            reason="ValidationFailed",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling about an object; ``trace`` is not forwarded to notifications.

    Keys of ``metadata`` without a slash belong to the object's API group. Without ``cluster`` it
    is only forwarded: the cluster's events tell it already. ``preceded_by`` is the message of an
    event that was only forwarded just before: the cluster's event has both messages, which spares
    the API server one object.
    """

    ref: ObjectRef
    meta: ObjectMeta
    severity: Severity
    reason: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    cluster: bool = True
    preceded_by: str = ""

    @property
    def shown(self) -> str:
        """Return the text of the cluster's event."""
        return f"{self.preceded_by}\n{self.message}" if self.preceded_by else self.message


class EventSink(Protocol):
    """The receiver of events (``toolkit.events.Recorder``)."""

    def emit(self, event: Event) -> None:
        """Record one event without waiting for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a successful reconciliation.

    - ``requeue_after`` is in seconds; the controller adds the jitter. None plans nothing.
    - ``quiet``: nothing has changed. Neither status nor event is written, unless the last
      reconciliation left something to clean up.
    - ``ready="Unknown"``: the object is still progressing, without a worker.
    - ``untouched``: an annotation of the kind disables reconciliation, so the status stays.
    """

    message: str
    reason: str = "Succeeded"
    ready: Literal["True", "Unknown"] = "True"
    requeue_after: float | None = None
    quiet: bool = False
    untouched: bool = False


class Reconciliation(Generic[T]):
    """The draft of one reconciliation: the object, the triggers, and the collected changes.

    ``obj`` keeps the spec from the start of the reconciliation, even if a user changes it
    meanwhile; its status follows the writes of the reconciliation. ``revision`` goes into log lines
    and metadata of events as soon as the reconciler sets it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a reconciliation
        self,
        obj: T,
        gvk: GroupVersionKind,
        *,
        id: str,  # noqa: A002 - the log's reconcileID
        triggers: frozenset[str],
        recorder: EventSink,
        log: telemetry.ObjectLogger,
        write_status: Callable[[T, Json], Awaitable[T]],
    ) -> None:
        meta = obj.metadata
        self.obj = obj
        self.id = id
        self.key = ObjectKey(meta.namespace, meta.name)
        self.ref = ObjectRef(gvk, meta.namespace, meta.name)
        self.triggers = triggers
        self.log = log
        self.told = False
        self._recorder = recorder
        self._write_status = write_status
        self._revision = ""
        self.about: dict[str, str] = {}
        """Additional metadata of every event of the reconciliation."""
        self._progressed = False
        self._latest = obj
        self._written: Json = msgspec.to_builtins(obj.status)
        self._fields: Json = {}
        self.conditions: list[Json] = list(self._written.get("conditions") or ())
        self.before = conditions.find(self.conditions, conditions.READY)

    @property
    def revision(self) -> str:
        """Return the revision that is reconciled; empty until it is known."""
        return self._revision

    @revision.setter
    def revision(self, value: str) -> None:
        self._revision = value
        self.log = self.log.also(revision=value)

    def status(self, fields: Mapping[str, object]) -> None:
        """Set status fields by their JSON names; None removes one. Written even if the pass fails.

        Values may be structs of ``crds``.
        """
        self._fields |= msgspec.to_builtins(dict(fields))

    def mark(
        self,
        type: str,  # noqa: A002 - the API's name for it
        status: Literal["True", "False", "Unknown"],
        reason: str,
        message: str,
    ) -> None:
        """Set a condition."""
        self.conditions = conditions.put(
            self.conditions,
            conditions.make(type, status, reason, message),
            generation=self.obj.metadata.generation,
            now=dt.datetime.now(dt.UTC),
        )

    def unmark(self, *types: str) -> None:
        """Remove conditions."""
        self.conditions = conditions.remove(self.conditions, *types)

    def event(  # noqa: PLR0913 - the fields of an event
        self,
        severity: Severity,
        reason: str,
        message: str,
        metadata: Mapping[str, str] = _EMPTY,
        *,
        cluster: bool = True,
        preceded_by: str = "",
    ) -> None:
        """Send an event; its metadata get the revision and the entries of ``about``."""
        about = {**({"revision": self._revision} if self._revision else {}), **self.about}
        self.told = self.told or severity != "trace"
        self._recorder.emit(
            Event(
                ref=self.ref,
                meta=self.obj.metadata,
                severity=severity,
                reason=reason,
                message=conditions.shortened(message),
                metadata={**about, **metadata},
                cluster=cluster,
                preceded_by=preceded_by,
            )
        )

    async def progress(
        self, message: str, *, reason: str = "Progressing", ready: bool = True
    ) -> None:
        """Show Reconciling=True and Ready=Unknown: the first call patches the status, others log.

        With ``ready=False`` Ready stays, because it shows the failure that the next action repairs.
        """
        self._progresses(message, reason, ready=ready)
        if not self._progressed:
            self._progressed = True
            await self.write()

    async def during(
        self, work: Awaitable[R], message: str, *, reason: str = "Progressing", ready: bool = True
    ) -> R:
        """Run work, and call ``progress`` if it takes longer than a moment.

        Work that ends sooner is only reported by its result, which saves a write. The work
        continues if the status cannot be written; the controller reports that at the end.
        """
        self._progresses(message, reason, ready=ready)
        task = asyncio.ensure_future(work)
        try:
            if not self._progressed:
                await asyncio.wait({task}, timeout=_MOMENT)
            if not (task.done() or self._progressed):
                self._progressed = True
                await self._try_to_write()
            return await task
        except BaseException:
            task.cancel()
            await asyncio.wait({task})
            raise

    def _progresses(self, message: str, reason: str, *, ready: bool) -> None:
        self.log.info(message)
        self.mark(conditions.RECONCILING, "True", reason, message)
        if ready:
            self.mark(conditions.READY, "Unknown", reason, message)

    async def _try_to_write(self) -> None:
        try:
            await self.write()
        except PenstockError as exc:
            self.log.info("Status not written", extra={"error": str(exc)})

    async def write(self) -> bool:
        """Patch the status if it differs from the stored one; return whether it was written.

        Only ``progress`` and the controller call it.
        """
        wanted = {**self._written, **self._fields, "conditions": self.conditions or None}
        body = patch.merge_patch(self._written, wanted)
        if not body:
            return False
        self._latest = await self._write_status(self._latest, body)
        self._written = msgspec.to_builtins(self._latest.status)
        obj: Any = self.obj
        self.obj = msgspec.structs.replace(obj, status=self._latest.status)
        return True

    def adopt(self, obj: T) -> None:
        """Work on this version of the object instead (the controller's, before the pass)."""
        self.obj = self._latest = obj
