"""One pass over one object: what a reconciler is given, and what it gives back.

``Reconciliation`` is a draft. Status fields, conditions and events are collected on it;
``controller`` writes them, whether the pass ends well or not.
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
        """Tell whether the user wants no passes for now."""


class Reconcilable(Protocol):
    """What every reconciled model has (``crds``)."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return name, namespace, generation and the like."""

    @property
    def spec(self) -> Suspendable:
        """Return what the user asks for."""

    @property
    def status(self) -> Any:
        """Return what was written last: a struct of ``crds``."""


T = TypeVar("T", bound=Reconcilable)
R = TypeVar("R")

_MOMENT: Final = 1.0
"""Seconds that work may take before the status says that it is under way."""


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
    """Where events go (``toolkit.events.Recorder``)."""

    def emit(self, event: Event) -> None:
        """Record one event without waiting for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a pass ended well.

    ``requeue_after`` is in seconds, the controller adds the jitter; None plans nothing.
    ``quiet``: nothing changed, so neither status nor event is written unless the last pass left
    something to tidy. ``ready="Unknown"``: the object goes on progressing without a worker.
    ``untouched``: an annotation of the kind switches it off, so it stays as the last pass left it.
    """

    message: str
    reason: str = "Succeeded"
    ready: Literal["True", "Unknown"] = "True"
    requeue_after: float | None = None
    quiet: bool = False
    untouched: bool = False


class Reconciliation(Generic[T]):
    """The draft of one pass: the object, why it is reconciled, and what is to be written.

    ``obj`` keeps the spec that the pass began with, whatever its user writes meanwhile; its status
    follows what the pass has written. ``revision`` goes into log lines and event metadata as soon
    as the reconciler sets it.
    """

    def __init__(  # noqa: PLR0913 - what a pass needs
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
        """What every event of the pass has in its metadata besides."""
        self._progressed = False
        self._latest = obj
        self._written: Json = msgspec.to_builtins(obj.status)
        self._fields: Json = {}
        self.conditions: list[Json] = list(self._written.get("conditions") or ())
        self.before = conditions.find(self.conditions, conditions.READY)

    @property
    def revision(self) -> str:
        """Return the revision that this pass works on; empty until it is known."""
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

    def event(  # noqa: PLR0913 - what an event consists of
        self,
        severity: Severity,
        reason: str,
        message: str,
        metadata: Mapping[str, str] = _EMPTY,
        *,
        cluster: bool = True,
        preceded_by: str = "",
    ) -> None:
        """Emit an event; the revision and what the pass is ``about`` are added to its metadata."""
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
        """Show Reconciling=True, Ready=Unknown: the first call patches status, later ones log.

        With ``ready=False`` Ready stays as it is: what is done next repairs what it tells of.
        """
        self._progresses(message, reason, ready=ready)
        if not self._progressed:
            self._progressed = True
            await self.write()

    async def during(
        self, work: Awaitable[R], message: str, *, reason: str = "Progressing", ready: bool = True
    ) -> R:
        """Do work, and show it as ``progress`` does if it takes longer than a moment.

        Work that is done by then is told by what comes of it, so it costs one write less. The work
        goes on if the status cannot be written: the controller tells that at the end of the pass.
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
        """Patch the status if it differs from what the server has; tell whether it did.

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
