"""Reconcile one release: observe, decide, act, and observe again.

The loop ends when nothing is left to do, when it must wait for the objects of an action, or when an
action of the same kind would run twice (``decisions``). It always ends with an outcome or an error.
"""

from dataclasses import dataclass
from typing import Final, NoReturn

from controllers.applying import waiting
from controllers.helm.deciding import decisions, outcomes, policies, progress, snapshots, states
from controllers.helm.deciding.decisions import Action, Facts, Next, Target
from controllers.helm.deciding.outcomes import CLEARED, RELEASED, REMEDIATED, TESTED, Happening
from controllers.helm.deciding.states import Observed, State
from controllers.helm.running import awaiting, drifting, locking, opening, telling
from controllers.helm.running.acting import ActionError, Actor
from controllers.helm.running.drifting import Drift
from controllers.helm.running.memory import Pending
from controllers.helm.running.opening import Decrypting
from controllers.helm.running.work import Work, words
from controllers.helm.settings import Settings
from toolkit.errors import StalledError, Told, WaitingError
from toolkit.kube.controller import Outcome
from toolkit.objects import gvk_of
from toolkit.release import record

_BROKEN: Final = frozenset({State.ABSENT, State.UNMANAGED, State.LOCKED})
"""States in which a wait for objects of the release must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Releaser:
    """Reconciles releases."""

    actor: Actor
    settings: Settings
    admission: Decrypting

    async def release(self, work: Work) -> Outcome:
        """Run actions until the release is as desired, or must be waited for.

        Raises:
            PenstockError: the release is not as desired; the error says when to try again.
        """
        done: tuple[Action, ...] = ()
        drift: Drift | None = None
        while True:
            if not work.kept.read:
                await self.actor.read(work)
            state = self._observed(work, drift)
            if work.kept.pending or self._resume(work, state):
                ended = await self._settle(work, state)
                if isinstance(ended, Outcome):
                    return ended
                done = ended or done
                continue
            await locking.require_unlocked(work)
            if drift is None and state.state is State.IN_SYNC and self._looks(work):
                drift = await self._drift(work)
                state = self._observed(work, drift)
            decision = await self._decided(work, state)
            if decision is None:
                return self._concluded(work)
            if not decisions.may_run(decision, done):
                self._stop(work, decisions.instead(work.obj, retries_by_default=self._by_default))
            opening.require(work.obj, self.admission)
            done = (*done, decision)
            if decision is Action.CORRECT:
                drift = await self._correct(work, drift)
                continue
            drift = None
            await self.actor.act(work, decision, done)
            if work.kept.pending is None:
                self._after(work, decision)

    @property
    def _by_default(self) -> bool:
        return self.settings.retries_by_default

    def _observed(self, work: Work, drift: Drift | None) -> Observed:
        drifted = drift is not None and bool(drift.findings)
        observed = states.observe(work.obj, work.kept.seen, work.desired, drifted=drifted)
        work.draft.rec.log.debug("release is %s: %s", observed.state.value, observed.reason)
        return observed

    def _resume(self, work: Work, state: Observed) -> Pending | None:
        """Resume the wait of an earlier process, if the conditions show one."""
        if state.state in _BROKEN:
            return None
        under_way = [each.type for each in work.draft.conditions if each.status == "Unknown"]
        work.kept.pending = awaiting.resumed(work.draft.rec.obj, under_way)
        return work.kept.pending

    async def _settle(self, work: Work, state: Observed) -> Outcome | tuple[Action, ...] | None:
        """Return the outcome if the wait continues; else end the wait and return its actions.

        The actions are those of all reconciliations of the wait, empty if it was given up.
        """
        pending = work.kept.pending
        if pending is None:
            return None
        broken = state.state in _BROKEN and pending.action is not Action.UNINSTALL
        if broken or pending.attempted != work.attempted:
            # The desired state has changed, or another client has changed the release.
            awaiting.end(work)
            work.kept.pending = None
            work.draft.rec.unmark(
                *(each.type for each in work.draft.conditions if _is_under_way(each.type, work))
            )
            return ()
        if pending.wait is None and not pending.going:
            await self._objects(work)
            objects = [*filter(work.renders, work.objects or ())]
            # The history claims that these objects were applied. The watches see objects of all
            # tenants. Without this check, a tenant who can write the history could learn about
            # objects of others with CEL expressions.
            awaited = awaiting.awaited(work.obj, pending.action, objects)
            await waiting.require_access(work.target.client, awaited, ())
            # Another process has applied the objects, so this one does not watch them yet.
            work.cluster.live.ensure(work.draft.rec.key, {gvk_of(each) for each in objects})
            awaiting.begin(work, pending, objects)
        found, error = await awaiting.look(work, pending)
        if found == "waiting":
            return await self._waiting(work, pending)
        await self.actor.conclude(work, pending, error=error)
        self._after(work, pending.action)
        return pending.done

    async def _waiting(self, work: Work, pending: Pending) -> Outcome:
        message = progress.running(work.obj, pending.action)
        remediates = decisions.KINDS[pending.action] is decisions.Kind.REMEDIATE
        work.draft.begin(REMEDIATED if remediates else RELEASED, message)
        await work.draft.rec.progress(message, ready=not remediates)
        return Outcome(
            message=message,
            reason="Progressing",
            ready="Unknown",
            requeue_after=awaiting.look_again(work, pending),
        )

    async def _objects(self, work: Work) -> None:
        if work.objects is None:
            await self.actor.read(work)

    def _looks(self, work: Work) -> bool:
        """Tell whether the cluster is to be compared with the release now."""
        if not drifting.detects(work.obj):
            return False
        if not work.compared or work.kept.unproven or "drift" in work.draft.rec.triggers:
            return True
        key, live = work.draft.rec.key, work.cluster.live
        return bool(live.unwatched(key)) or (
            "requested" in work.draft.rec.triggers and not live.proves(key)
        )

    async def _drift(self, work: Work) -> Drift:
        opening.require(work.obj, self.admission)
        await self._objects(work)
        drift = await drifting.check(
            work, work.objects or (), concurrency=self.settings.concurrent_ssa
        )
        drifting.tell(work, drift)
        work.kept.unproven = bool(drift.objects)
        work.compared = work.compared or not drift.objects
        return drift

    async def _correct(self, work: Work, drift: Drift | None) -> Drift:
        if drift is not None:
            correcting = drifting.correct(work, drift, concurrency=self.settings.concurrent_ssa)
            went_well = await work.draft.rec.during(correcting, progress.CORRECTING)
            work.kept.unproven = not went_well
            if went_well:
                work.compared = True
                drifting.clear(work.draft, looked=True)
        return Drift()

    async def _decided(self, work: Work, state: Observed) -> Action | None:
        """Return the next action, and store the history that the decision returns."""
        target = Target.NONE
        if state.state is State.FAILED:
            target = await self._target(work)
        facts = Facts(
            forced=work.forced, target=lambda: target, retries_by_default=self._by_default
        )
        try:
            decision = decisions.decide(state.state, work.obj, facts)
        except StalledError as error:
            raise _told(work, error) from None
        work.draft.keep(decision.history)
        # A request by annotation unlocks the release, and then still forces an upgrade.
        work.forced = work.forced and decision.action is Action.UNLOCK
        if state.state in {State.IN_SYNC, State.UNTESTED} and decision.action is not Action.UPGRADE:
            _unremediate(work)
        return decision.action

    async def _target(self, work: Work) -> Target:
        """Return whether storage has the release to roll back to; NONE without rollbacks."""
        remediation = policies.active(work.obj)
        if remediation is None or remediation.way != "rollback":
            return Target.NONE
        previous = snapshots.previous(
            work.obj.status.history, ignores_tests=remediation.ignores_tests
        )
        if previous is None:
            return Target.NONE
        stored = await self.actor.records(work)
        same = any(
            each.version == previous.version and record.matches(previous, each) for each in stored
        )
        return Target.INTACT if same else Target.CHANGED

    def _after(self, work: Work, action: Action) -> None:
        """End the reconciliation if no other action may follow."""
        try:
            following = decisions.after(action, work.obj, retries_by_default=self._by_default)
        except StalledError as error:
            raise _told(work, error) from None
        if following is not Next.OBSERVE:
            self._stop(work, following)

    def _stop(self, work: Work, following: Next) -> NoReturn:
        ready = work.draft.ready
        reason, message = (ready.reason, ready.message) if ready else ("Progressing", "")
        quiet = Told(event="", ready=(reason, message))
        if following is Next.REQUEUE:
            raise ActionError(message, reason=reason, told=quiet)
        seconds = policies.retry_seconds(work.obj, by_default=self._by_default)
        if following is Next.RETRY and seconds is not None:
            raise WaitingError(
                progress.retrying(seconds), reason=reason, retry_after=seconds, told=quiet
            )
        raise WaitingError(
            message, reason=reason, retry_after=work.obj.spec.interval_seconds, told=quiet
        )

    def _concluded(self, work: Work) -> Outcome:
        """Return the outcome of a reconciliation that has nothing left to do."""
        draft, latest = work.draft, work.latest
        if not policies.tests(work.obj):
            draft.rec.unmark(TESTED)
        if not drifting.detects(work.obj):
            drifting.clear(draft, looked=False)
        if latest is not None:
            draft.note({"lastAppliedRevision": latest.chart_version})
            telling.restore(work, latest)
        ready = draft.ready
        if ready is None or ready.status != "True":
            self._stop(work, Next.REQUEUE)
        draft.note(dict.fromkeys(CLEARED))
        return Outcome(
            message=ready.message,
            reason=ready.reason,
            requeue_after=work.obj.spec.interval_seconds,
        )


def _is_under_way(type_: str, work: Work) -> bool:
    found = work.draft.condition(type_)
    return (
        type_ in {RELEASED, REMEDIATED}
        and found is not None
        and (found.status, found.reason) == ("Unknown", "Progressing")
    )


def _unremediate(work: Work) -> None:
    """Replace Remediated by Released if the release is as desired (Flux: ``replaceCondition``)."""
    latest = work.latest
    remediated = work.draft.condition(REMEDIATED)
    if latest is not None and remediated is not None and remediated.status == "True":
        told = outcomes.told(Happening.UPGRADED, **words(latest))
        work.draft.rec.unmark(REMEDIATED)
        work.draft.rec.mark(RELEASED, "True", told.reason, told.message)


def _told(work: Work, error: StalledError) -> StalledError:
    """Return the error with reason and message of Ready, which differ from those of Stalled."""
    ready = work.draft.ready
    if ready is None:
        return error
    told = Told(ready=(ready.reason, ready.message))
    return type(error)(str(error), told=told)
