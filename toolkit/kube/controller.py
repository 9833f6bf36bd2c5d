"""The controller: a loop that reconciles changed objects and writes the results into their status.

A reconciler is a function over a ``Reconciliation`` that returns an ``Outcome`` or raises an error
of ``toolkit.errors``. The controller does everything else: finalizer, suspension, requested
reconciliations, conditions, at most two status patches per reconciliation, events, metrics,
requeues.
"""

import asyncio
import dataclasses
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from crds.meta import format_duration
from toolkit import telemetry
from toolkit.errors import StalledError, TransientError
from toolkit.kube import conditions, errors, measure, predicates, undecoded, verdict
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.kube.reconciliation import (
    EventSink,
    Outcome,
    Reconcilable,
    Reconciliation,
    require_spec,
)
from toolkit.kube.undecoded import StandIns, Undecoded
from toolkit.kube.workqueue import Item, QueueClosedError, WorkQueue
from toolkit.kube.writer import VanishedError, Writer
from toolkit.objects import GroupVersionKind, Json, ObjectKey

__all__ = ["Controller", "ControllerOptions", "Outcome", "Reconciliation"]

logger = logging.getLogger(__name__)

_OWN_TIMERS: Final = ("interval", "retry", "dependency")

T = TypeVar("T", bound=Reconcilable)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class ServedKind(Protocol[T_co]):
    """The fields of a ``crds.kind.Kind`` that the controller needs."""

    @property
    def model(self) -> type[T_co]:
        """Return the struct that decodes the objects."""

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""

    @property
    def finalizer(self) -> str:
        """Return the finalizer for objects that something must be undone for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Settings of one controller; times are in seconds, ``interval_jitter`` is a fraction.

    At most ``concurrent`` reconciliations of one namespace run at the same time. One more worker is
    left to other namespaces.
    """

    concurrent: int = 4
    min_retry_delay: float = 0.75
    max_retry_delay: float = 900.0
    requeue_dependency: float = 30.0
    interval_jitter: float = 0.05
    grace: float = 30.0
    namespace: str = ""
    label_selector: str = ""


class Controller(Generic[T]):
    """Runs the reconciliations of one kind.

    Objects that are ``static`` are never reconciled. Only objects that are ``held`` get the
    finalizer; other objects need no cleanup by a reconciler.
    """

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
        static: Callable[[T], bool] = lambda _: False,
        held: Callable[[T], bool] = lambda _: True,
    ) -> None:
        self.gvk = GroupVersionKind(*kind.gvk)
        self.name = self.gvk.kind.lower()
        self.informer: Informer[T] = Informer(
            client,
            self.gvk,
            decode=msgspec.json.Decoder(kind.model).decode,
            namespace=options.namespace,
            label_selector=options.label_selector,
        )
        self._finalizer = kind.finalizer
        self._writer = Writer(
            client,
            self.informer,
            kind.model,
            field_manager=field_manager,
            finalizer=self._finalizer,
        )
        self._stand_ins = StandIns(kind, client, field_manager=field_manager)
        self._measure = measure.Measure(self.gvk, workers=options.concurrent)
        self._reconcile = reconcile
        self._finalize = finalize
        self._options = options
        self._recorder = recorder
        self._retry_interval = retry_interval
        self._static = static
        self._held = held
        self._queue = WorkQueue(
            self.name,
            min_delay=options.min_retry_delay,
            max_delay=options.max_retry_delay,
            share=options.concurrent,
        )
        self._active = False
        self._workers: list[asyncio.Task[None]] = []
        self.informer.subscribe(self._changed)
        self.informer.subscribe_undecoded(self._undecoded)

    def enqueue(self, key: ObjectKey, trigger: str, *, after: float = 0.0) -> None:
        """Queue an object, after a delay; replaces the earlier plan of the same trigger.

        Unknown keys are ignored.
        """
        if self._active and self._writer.current(key) is not None:
            self._queue.add_after(key, after, trigger)

    async def run(self) -> None:
        """Run until cancelled, which cancels reconciliations, or until ``stop`` has drained it.

        Call it once. The manager runs the informer, so that replicas without the lease have warm
        caches.
        """
        await self.informer.wait_synced()
        self._active = True
        for key, obj in self.informer.items().items():
            self._measure.observe(obj)
            self._queue.add(key, "start")
            if predicates.is_requested(obj):
                self._queue.add(key, "requested")
        for key in self._stand_ins.items():
            self._queue.add(key, "start")
        try:
            async with asyncio.TaskGroup() as group:
                # One worker more than any namespace may use, so a namespace can only block its own
                # objects.
                for _ in range(self._options.concurrent + 1):
                    self._workers.append(group.create_task(self._work()))
        finally:
            self._active = False
            self._queue.shutdown()

    async def stop(self) -> None:
        """Take no new work, wait ``options.grace`` seconds for reconciliations, cancel the rest.

        A cancelled reconciliation writes nothing: the next leader starts with it.
        """
        self._active = False
        self._queue.shutdown()
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=self._options.grace)
            for worker in late:
                worker.cancel()

    def _changed(self, change: Change[T]) -> None:
        """Queue the object if the change requires a reconciliation."""
        self._writer.saw(change)
        if not self._active:
            return
        if change.new is None:
            self._forget(change.key)
            return
        self._measure.observe(change.new)
        for trigger in predicates.triggers(change.old, change.new, finalizer=self._finalizer):
            self._queue.add(change.key, trigger)

    def _undecoded(self, key: ObjectKey, found: Undecoded | None) -> None:
        """Queue an object that does not decode, if it was not reported as it is."""
        for trigger in self._stand_ins.saw(key, found, finalizer=self._finalizer):
            if self._active:
                self._queue.add(key, trigger)
        self._measure.undecoded(len(self._stand_ins))
        if found is None and self._writer.current(key) is None:
            self._forget(key)

    async def _work(self) -> None:
        while True:
            try:
                item = await self._queue.get()
            except QueueClosedError:
                return
            try:
                with self._measure.active.track_inprogress():
                    await self._pass(item)
            finally:
                self._queue.done(item.key)

    async def _pass(self, item: Item) -> None:
        """Choose the action for an object: none, finalization, or a reconciliation."""
        if (lost := self._stand_ins.get(item.key)) is not None:
            await self._report(item, *lost)
            return
        obj = self._writer.current(item.key)
        if obj is None:
            self._forget(item.key)
            return
        self._queue.cancel(item.key, *_OWN_TIMERS)
        deleted = bool(obj.metadata.deletion_timestamp)
        if deleted and self._finalizer not in obj.metadata.finalizers:
            self._queue.forget(item.key)
            return
        rec = self._draft(obj, item.triggers)
        static = self._static(obj)
        step = self._delete if deleted else self._retire if static else self._advance
        if obj.spec.suspend and not deleted:
            rec.log.info("Reconciliation is suspended for this object")
        try:
            if not deleted and self._is_left_alone(obj, static=static):
                await self._rest(rec)
            else:
                await self._attempt(rec, step)
        except VanishedError:
            rec.log.debug("The object is gone")

    async def _report(self, item: Item, obj: T, error: StalledError) -> None:
        """Tell the users of an object that does not decode."""
        self._queue.cancel(item.key, *_OWN_TIMERS)
        rec = self._draft(obj, item.triggers, write_status=self._stand_ins.write)
        judged = self._judge(rec, error)
        verdict.settle(rec, judged)
        rec.event("error", judged.reason, judged.message)
        rec.log.error("Object not read", extra={"error": judged.message})
        try:
            await rec.write()
        except errors.ApiError as exc:
            rec.log.error("Status not written", extra={"error": str(exc)})  # noqa: TRY400 - handled
            self._queue.retry(item.key)
        else:
            self._queue.forget(item.key)
        self._measure.observe(rec.obj)

    def _is_left_alone(self, obj: T, *, static: bool) -> bool:
        """Tell whether nothing is to be done for an object, nor to be taken back."""
        done_for = self._finalizer in obj.metadata.finalizers or undecoded.is_reported(obj)
        return obj.spec.suspend or (static and not done_for)

    async def _rest(self, rec: Reconciliation[T]) -> None:
        """Show that an object needs no reconciliation, unless its status shows something else.

        The CRDs' default for ``observedGeneration`` is -1, which means that a reconciliation will
        follow. Clients that use kstatus would wait for it forever. As in Flux, a suspended object
        has the finalizer from the start.
        """
        self._queue.forget(rec.key)
        try:
            if not self._static(rec.obj):
                await self._hold(rec)
            meta, status = rec.obj.metadata, rec.obj.status
            if not status.conditions and status.observed_generation not in {0, meta.generation}:
                rec.status({"observedGeneration": meta.generation})
                await rec.write()
        except errors.ApiError as exc:
            rec.log.error("Status not written", extra={"error": str(exc)})  # noqa: TRY400 - handled
            self._queue.retry(rec.key)

    async def _attempt(
        self,
        rec: Reconciliation[T],
        step: Callable[[Reconciliation[T]], Awaitable[Outcome | None]],
    ) -> None:
        began = time.monotonic()
        quiet = False
        try:
            outcome = await _uncancelled(step(rec))
        except VanishedError:
            raise
        except Exception as exc:  # noqa: BLE001 - STYLE 10: the one place; becomes a condition
            judged = self._judge(rec, exc)
        else:
            if outcome is None:
                self._queue.forget(rec.key)
                rec.log.info("Finalized in %s", _took(began))
                return
            if outcome.untouched:
                self._queue.forget(rec.key)
                rec.log.info(outcome.message)
                return
            judged, quiet = verdict.succeeded(outcome), outcome.quiet
        judged = await self._conclude(rec, judged, quiet=quiet)
        delay = self._plan(rec, judged)
        seconds = time.monotonic() - began
        if self._writer.current(rec.key) is not None:
            self._measure.finished(rec.key, judged, seconds)
        measure.log_end(rec.log, judged, seconds=seconds, delay=delay)

    async def _advance(self, rec: Reconciliation[T]) -> Outcome:
        require_spec(rec.obj)
        await self._hold(rec)
        return await self._reconcile(rec)

    async def _hold(self, rec: Reconciliation[T]) -> None:
        if self._held(rec.obj):
            rec.adopt(await self._writer.finalizer(rec.obj, present=True))

    async def _delete(self, rec: Reconciliation[T]) -> None:
        await self._finalize(rec)
        await self._writer.finalizer(rec.obj, present=False)

    async def _retire(self, rec: Reconciliation[T]) -> None:
        """Take back all that was done for an object before it became static."""
        await self._finalize(rec)
        rec.unmark(*(row["type"] for row in rec.conditions))
        rec.status({"observedGeneration": rec.obj.metadata.generation})
        await rec.write()
        await self._writer.finalizer(rec.obj, present=False)

    def _judge(self, rec: Reconciliation[T], exc: Exception) -> verdict.Verdict:
        judged = verdict.failed(
            exc,
            requeue_dependency=self._options.requeue_dependency,
            retry_interval=self._retry_interval(rec.obj),
            reconcile_id=rec.id,
        )
        if judged.internal:
            rec.log.error("Unexpected error", exc_info=exc)
        return judged

    async def _conclude(
        self, rec: Reconciliation[T], judged: verdict.Verdict, *, quiet: bool
    ) -> verdict.Verdict:
        """Write the verdict into the status, send the event, and return the final verdict."""
        if not judged.written:
            return judged
        if not (quiet and verdict.is_settled(rec)):
            verdict.settle(rec, judged)
        try:
            await rec.write()
        except errors.ApiError as exc:
            rec.log.error("Status not written", extra={"error": str(exc)})  # noqa: TRY400 - handled
            return dataclasses.replace(judged, plan="backoff", result="error")
        # A failure is always reported (the recorder counts repeats). A success is reported if Ready
        # has changed and the reconciler has not sent an event itself.
        news = rec.before != conditions.find(rec.conditions, conditions.READY)
        news = news and not rec.told and not quiet and judged.ready != "Unknown"
        text = judged.message if judged.event is None else judged.event
        if text and (news or judged.severity == "error"):
            rec.event(judged.severity, judged.reason, text)
        return judged

    def _plan(self, rec: Reconciliation[T], judged: verdict.Verdict) -> float | None:
        """Plan the next pass and return the seconds until then."""
        if self._writer.current(rec.key) is None:
            return None
        if judged.plan == "backoff":
            return self._queue.retry(rec.key)
        if judged.ready != "Unknown":
            # An attempt that is still in progress may fail like those before.
            self._queue.forget(rec.key)
        if judged.plan == "none":
            return None
        spread = self._options.interval_jitter if judged.plan == "interval" else 0.0
        delay = judged.delay * (1 + random.uniform(-spread, spread))  # noqa: S311 - jitter
        self._queue.add_after(rec.key, delay, judged.plan)
        return judged.delay

    def _draft(
        self,
        obj: T,
        triggers: frozenset[str],
        *,
        write_status: Callable[[T, Json], Awaitable[T]] | None = None,
    ) -> Reconciliation[T]:
        reconcile_id = str(uuid.uuid4())
        meta = obj.metadata
        fields = {
            "controller": self.name,
            "controllerGroup": self.gvk.group,
            "controllerKind": self.gvk.kind,
            self.gvk.kind: {"name": meta.name, "namespace": meta.namespace},
            "namespace": meta.namespace,
            "name": meta.name,
            "reconcileID": reconcile_id,
        }
        return Reconciliation(
            obj,
            self.gvk,
            id=reconcile_id,
            triggers=triggers,
            recorder=self._recorder,
            log=telemetry.ObjectLogger(logger, fields),
            write_status=write_status or self._writer.status,
        )

    def _forget(self, key: ObjectKey) -> None:
        self._queue.cancel(key)
        self._queue.forget(key)
        self._measure.forget(key)


async def _uncancelled(step: Awaitable[R]) -> R:
    """Await a step; turn a cancellation that is not meant for this worker into an error.

    A step that awaits a shared task is cancelled if another task cancels that task. The worker must
    survive this.
    """
    try:
        return await step
    except asyncio.CancelledError as exc:
        worker = asyncio.current_task()
        if worker is None or worker.cancelling():
            raise
        raise TransientError("the work was cancelled from within") from exc


def _took(began: float) -> str:
    return format_duration(time.monotonic() - began)
