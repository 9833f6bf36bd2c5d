"""Run one action of Helm, and record its result in history, counters, conditions and events.

If Helm recorded a failure, it is a state of the release, and the reconciliation continues from that
state. If Helm wrote no record, there is nothing to repair, and the reconciliation ends
(helm-controller ``internal/reconcile``).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from msgspec import structs

from controllers.applying import homes, reporting
from controllers.helm.deciding import (
    decisions,
    differences,
    orders,
    outcomes,
    policies,
    progress,
    snapshots,
    states,
)
from controllers.helm.deciding.decisions import Action, Kind
from controllers.helm.deciding.outcomes import Happening
from controllers.helm.running import awaiting, drifting, telling, uninstalling
from controllers.helm.running.engine import Engine, Traces
from controllers.helm.running.memory import Kept, Pending
from controllers.helm.running.work import Work, metadata_of, words
from crds.helm_status import Snapshot
from crds.meta import format_duration
from toolkit import inventory
from toolkit.errors import PenstockError, Told, TransientError
from toolkit.helm.actions import Order, Outcome
from toolkit.native.calls import EngineError
from toolkit.objects import Json, ref_of
from toolkit.release import record
from toolkit.release.record import Record

_DESCRIPTIONS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.INSTALL: "Release {name!r} failed: {error}",
        Action.UPGRADE: "Upgrade {name!r} failed: {error}",
        Action.ROLLBACK: "Release {name!r} failed: {error}",
    }
)
"""Descriptions that Helm writes into a record that it marks as failed (``pkg/action``)."""


class ActionError(TransientError):
    """An action failed and left nothing to repair; its event was already sent."""

    default_reason = "ReconcileError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Runs actions with the engine, and records their results."""

    engine: Engine

    async def act(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        """Run an action.

        If the reconciliation must wait for its objects, ``work.kept.pending`` is set afterwards.

        Raises:
            ActionError: the action failed, and Helm wrote no record.
        """
        await _ACTIONS[action](self, work, action, done)

    async def conclude(self, work: Work, pending: Pending, *, error: str) -> None:
        """Record the end of the wait for an action's objects.

        ``error`` is empty if all of them are ready.
        """
        work.kept.pending = None
        if error and pending.action in _DESCRIPTIONS:
            await self._mark_failed(work, pending, error)
        if decisions.KINDS[pending.action] is Kind.RELEASE:
            if error:
                telling.release_failed(work, pending.action, error, log=pending.log, recorded=True)
            else:
                telling.released(work, pending.action)
        elif pending.action is Action.ROLLBACK:
            telling.rolled_back(work, pending.target or work.latest, error, log=pending.log)
        else:
            telling.uninstalled(work, error)

    async def read(self, work: Work) -> None:
        """Read the records of the release, and the objects of the newest record."""
        outcome = await self._history(work)
        newest = outcome.records[0] if outcome.records else None
        _remember(work, newest, outcome.objects)
        work.kept.rendered = differences.rendered(outcome.objects)

    async def records(self, work: Work) -> tuple[Record, ...]:
        """Return all records of the release."""
        return (await self._history(work)).records

    async def _history(self, work: Work) -> Outcome:
        try:
            return await self._perform(work, "history", timeout=_READ_SECONDS)
        except PenstockError as error:
            reason = states.StateError.default_reason
            raise error.within("Could not determine release state", reason=reason) from error

    async def _mark_failed(self, work: Work, pending: Pending, error: str) -> None:
        text = _DESCRIPTIONS[pending.action].replace("{name!r}", f'"{work.target.name}"')
        outcome = await self._perform(
            work,
            "fail",
            timeout=_READ_SECONDS,
            options={"description": text.replace("{error}", error)},
        )
        _update(work, outcome.records, action="")

    async def _perform(  # noqa: PLR0913 - the options of an action
        self,
        work: Work,
        action: str,
        *,
        timeout: float,  # noqa: ASYNC109 - it starts with the action
        options: Json | None = None,
        charted: bool = False,
        traces: Traces | None = None,
    ) -> Outcome:
        async with AsyncExitStack() as stack:
            chart = None
            if charted:
                chart = await stack.enter_async_context(work.charts.opened(work.source))
            order = Order(
                action=action,  # type: ignore[arg-type]  # names of Action are the engine's
                timeout=timeout,
                manager=orders.MANAGER,
                chart=chart,
                values=work.values.values if charted else {},
                options=options or {},
                secrets=work.values.secrets,
            )
            return await self.engine.perform(work.target, order, traces or Traces())

    async def _release(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        draft, started = work.draft, time.monotonic()
        draft.note({"lastAttemptedReleaseAction": action.value})
        if action is Action.INSTALL:
            # A new installation is never rolled back to an earlier release.
            draft.keep(())
            work.kept.rendered = {}
        draft.rec.unmark(outcomes.TESTED, outcomes.REMEDIATED)
        draft.begin(outcomes.RELEASED, progress.running(work.obj, action))
        traces = Traces()
        options = orders.options(work.obj, action) | _version_option(work)
        outcome, error = await self._tried(work, action, options, traces, charted=True)
        took = time.monotonic() - started
        draft.note(
            {
                "lastAttemptedReleaseActionDuration": format_duration(took),
                "observedPostRenderersDigest": states.post_renderers_digest(work.obj) or None,
                "observedCommonMetadataDigest": states.common_metadata_digest(work.obj) or None,
            }
        )
        draft.keep(
            snapshots.released(
                work.obj.status.history,
                outcome.records,
                action=action.value,
                oci_digest=work.version.oci_digest,
            )
        )
        _wrote(work, outcome, traces)
        telling.unchecked(work, outcome.unchecked)
        if error is not None:
            recorded = bool(outcome.records)
            telling.release_failed(work, action, str(error), log=outcome.log, recorded=recorded)
            if not recorded:
                raise _unrecorded(work, error)
            return
        _await(work, action, outcome, done, took=took)
        if work.kept.pending is None:
            telling.released(work, action)

    async def _test(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        del done
        options = orders.options(work.obj, action)
        outcome, error = await self._tried(work, action, options, Traces())
        newest = outcome.records[0] if outcome.records else None
        if newest is not None:
            _update(work, outcome.records, action="", hooks=newest)
        latest = work.latest
        if latest is None:
            raise _unrecorded(work, error or TransientError("the release has disappeared"))
        if error is None:
            work.draft.tell(
                Happening.TESTED,
                {**words(latest), "tests": outcomes.tests_told(latest)},
                metadata=metadata_of(latest),
            )
            return
        work.draft.note(
            outcomes.failed(work.obj, Happening.TEST_FAILED, recorded=newest is not None)
        )
        work.draft.tell(
            Happening.TEST_FAILED,
            {**words(latest), "error": str(error)},
            metadata=metadata_of(latest),
            log=outcome.log,
        )
        if newest is None:
            raise _unrecorded(work, error)

    async def _rollback(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        draft, started = work.draft, time.monotonic()
        remediation = policies.active(work.obj)
        ignores = remediation.ignores_tests if remediation else policies.ignores_tests(work.obj)
        target = snapshots.previous(work.obj.status.history, ignores_tests=ignores)
        if target is None:
            raise ActionError("there is no release to roll back to")
        draft.begin(outcomes.REMEDIATED, progress.running(work.obj, action))
        traces = Traces()
        options = orders.options(work.obj, action) | {"version": target.version}
        outcome, error = await self._tried(work, action, options, traces)
        _update(work, outcome.records, action=action.value)
        _wrote(work, outcome, traces)
        if error is not None:
            telling.rolled_back(work, target, str(error), log=outcome.log)
            if not outcome.records:
                raise _unrecorded(work, error)
            return
        _await(work, action, outcome, done, took=time.monotonic() - started, target=target)
        if work.kept.pending is None:
            telling.rolled_back(work, target, "", log=())

    async def _uninstall(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        work.draft.begin(outcomes.REMEDIATED, progress.running(work.obj, action))
        traces = Traces()
        known = uninstalling.seen(work.cluster, work.draft.rec.key)
        options = orders.options(work.obj, action) | known
        outcome, error = await self._tried(work, action, options, traces)
        _update(work, outcome.records, action="uninstall-remediation")
        work.cluster.live.expect(work.draft.rec.key, {})
        work.kept.read = False
        if error is not None:
            telling.uninstalled(work, str(error), log=outcome.log)
            if not outcome.records:
                raise _unrecorded(work, error)
            return
        said = work.obj.spec.uninstall
        if traces.going and not (said and said.disable_wait):
            work.kept.pending = Pending(
                action=action,
                attempted=work.attempted,
                seconds=time.monotonic() + policies.timeout_seconds(work.obj, action.value),
                done=done,
                going=tuple(traces.going.values()),
            )
            return
        telling.uninstalled(work, "")

    async def _unlock(self, work: Work, action: Action, done: tuple[Action, ...]) -> None:
        del done
        locked = work.kept.seen
        before = locked.status if locked else ""
        # Only the record that was judged: another client may have begun an action since.
        options: Json = {"version": locked.version} if locked else {}
        outcome, error = await self._tried(work, action, options, Traces())
        newest = outcome.records[0] if outcome.records else None
        if newest is not None and locked is not None and newest.version != locked.version:
            work.kept.read = False
            return
        if newest is not None:
            known = any(each.version == newest.version for each in work.obj.status.history)
            if known:
                _update(work, outcome.records, action="")
            _remember(work, newest, outcome.objects)
        named = record.snapshot(newest) if newest else work.latest
        if named is None:
            raise _unrecorded(work, error or TransientError("the release has disappeared"))
        happening = Happening.UNLOCK_FAILED if error else Happening.UNLOCKED
        work.draft.tell(
            happening,
            {**words(named), "state": before, "error": str(error)},
            metadata=metadata_of(named),
            log=outcome.log if error else (),
        )
        if error is not None:
            work.draft.note({"failures": work.obj.status.failures + 1})
            raise _unrecorded(work, error)

    async def _tried(
        self,
        work: Work,
        action: Action,
        options: Json,
        traces: Traces,
        *,
        charted: bool = False,
    ) -> tuple[Outcome, PenstockError | None]:
        """Run an action, and return its outcome and its error, if it failed.

        Raises:
            PenstockError: the action could not be run, so that there is no outcome.
        """
        key, cluster = work.draft.rec.key, work.cluster
        cluster.waits.cancel(key)
        work.kept.fingerprint = ""
        if action in _APPLYING:
            cluster.live.hold(key, traces.written)
            work.compared = False
        try:
            outcome = await work.draft.rec.during(
                self._perform(
                    work,
                    action.value,
                    timeout=policies.timeout_seconds(work.obj, action.value),
                    options=options,
                    charted=charted,
                    traces=traces,
                ),
                progress.running(work.obj, action),
                # Remediations leave Ready unchanged, because it says what failed.
                ready=decisions.KINDS[action] is Kind.RELEASE,
            )
        except EngineError as error:
            cluster.live.release(key)
            work.kept.read = False
            return error.outcome or Outcome(), error
        except BaseException:
            cluster.live.release(key)
            work.kept.read = False
            raise
        finally:
            if action in _APPLYING:
                homes.report(work.draft.rec, sorted(traces.kept))
        work.draft.rec.log.info("Ended '%s' action, %d requests", action.value, outcome.requests)
        return outcome, None


_READ_SECONDS: Final = 30.0
_APPLYING: Final = frozenset({Action.INSTALL, Action.UPGRADE, Action.ROLLBACK, Action.UNINSTALL})
"""Actions that change objects: while they run, differences are not drift."""

_Run = Callable[[Actor, Work, Action, tuple[Action, ...]], Awaitable[None]]
_ACTIONS: Final[Mapping[Action, _Run]] = MappingProxyType(
    {
        Action.INSTALL: Actor._release,  # noqa: SLF001 - the table of its own methods
        Action.UPGRADE: Actor._release,  # noqa: SLF001
        Action.TEST: Actor._test,  # noqa: SLF001
        Action.ROLLBACK: Actor._rollback,  # noqa: SLF001
        Action.UNINSTALL: Actor._uninstall,  # noqa: SLF001
        Action.UNLOCK: Actor._unlock,  # noqa: SLF001
    }
)


def _version_option(work: Work) -> Json:
    """Return the option for the version of the release, if it contains the artifact's digest."""
    return {"chartVersion": work.desired.chart_version} if work.version.oci_digest else {}


def _wrote(work: Work, outcome: Outcome, traces: Traces) -> None:
    """Record the objects of the newest record, and expect the watches to show them as written."""
    newest = outcome.records[0] if outcome.records else None
    if newest is None:
        work.kept.read, work.kept.rendered = False, None
        work.cluster.live.release(work.draft.rec.key)
        return
    _remember(work, newest, outcome.objects)
    _compare(work.kept, outcome.objects)
    refs = [ref_of(each) for each in outcome.objects]
    work.draft.note({"inventory": {"entries": inventory.encode(refs)}})
    key, live = work.draft.rec.key, work.cluster.live
    live.ensure(key, {ref.gvk for ref in refs})
    wanted = {ref.identity for ref in refs}
    live.expect(key, {i: known for i, known in traces.written.items() if i in wanted})
    work.cluster.rivals.pop(key, None)
    work.compared = drifting.complete(work, outcome.objects, traces.written)


def _compare(kept: Kept, objects: Sequence[Json]) -> None:
    """Record how the newest record differs from the one before, if that one is cached."""
    before, after = kept.rendered, differences.rendered(objects)
    changed = () if before is None else differences.lines(before, after)
    kept.rendered, kept.changes = after, reporting.in_short(changed)


def _remember(work: Work, newest: Record | None, objects: Sequence[Json]) -> None:
    work.kept.seen, work.kept.read = states.seen(work.obj, newest), True
    work.objects = tuple(objects)
    work.manifest = newest.manifest if newest else ""


def _update(
    work: Work, records: Sequence[Record], *, action: str, hooks: Record | None = None
) -> None:
    """Put changed records, newest first, into the history; ``action`` made the newest one."""
    if not records:
        work.kept.read = False
        return
    history = tuple(work.obj.status.history)
    known = {each.version for each in history}
    for older in records[1:]:
        if older.version in known:
            history = snapshots.updated(history, older, action="")
    history = snapshots.updated(history, records[0], action=action)
    if hooks is not None:
        filters = work.obj.spec.test.filters if work.obj.spec.test else ()
        tested = record.tested(hooks, filters)
        history = tuple(
            structs.replace(each, test_hooks=tested) if each.version == hooks.version else each
            for each in history
        )
    work.draft.keep(history)
    _remember(work, records[0], work.objects or ())


def _await(  # noqa: PLR0913 - the fields of a wait
    work: Work,
    action: Action,
    outcome: Outcome,
    done: tuple[Action, ...],
    *,
    took: float,
    target: Snapshot | None = None,
) -> None:
    pending = Pending(
        action=action,
        attempted=work.attempted,
        seconds=max(0.0, policies.timeout_seconds(work.obj, action.value) - took),
        done=done,
        target=target,
        log=outcome.log,
    )
    awaiting.begin(work, pending, outcome.objects)
    work.kept.pending = pending if pending.wait and pending.wait.awaited else None


def _unrecorded(work: Work, error: PenstockError) -> ActionError:
    """Return the error that ends the reconciliation; conditions and event already report it."""
    ready = work.draft.ready
    reason, message = (ready.reason, ready.message) if ready else (error.reason, str(error))
    return ActionError(message, reason=reason, told=Told(event="" if ready else None))
