"""The next action for a release in a given state: one action, none, or no more attempts. Pure.

The rules are Flux's (``internal/reconcile/atomic_release.go``). A reconciliation decides, acts and
observes again, until nothing is left to do or an action of the same kind would run twice
(``may_run``, ``after``). A decision returns the new history; all other changes of the status are in
``outcomes``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from controllers.helm.deciding import policies, snapshots
from controllers.helm.deciding.policies import Remediation
from controllers.helm.deciding.states import State
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.errors import StalledError


class Action(Enum):
    """An action; the value is its name in messages."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    TEST = "test"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    UNLOCK = "unlock"
    CORRECT = "correct cluster drift"


class Kind(Enum):
    """The kind of an action: in one reconciliation each kind runs once."""

    RELEASE = "release"
    TEST = "test"
    REMEDIATE = "remediate"
    UNLOCK = "unlock"
    CORRECT = "correct"


KINDS: Final[Mapping[Action, Kind]] = MappingProxyType(
    {
        Action.INSTALL: Kind.RELEASE,
        Action.UPGRADE: Kind.RELEASE,
        Action.TEST: Kind.TEST,
        Action.ROLLBACK: Kind.REMEDIATE,
        Action.UNINSTALL: Kind.REMEDIATE,
        Action.UNLOCK: Kind.UNLOCK,
        Action.CORRECT: Kind.CORRECT,
    }
)


class Target(Enum):
    """Whether Helm's storage still has the release to roll back to."""

    INTACT = "intact"
    """The record in storage matches the history."""
    CHANGED = "changed"
    """The record has disappeared, or differs from the history."""
    NONE = "none"
    """The history has no release to roll back to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Inputs of a decision besides the object.

    ``forced``: an annotation requests an upgrade. ``target`` returns the state of the release to
    roll back to; it is called only if a rollback is due. ``retries_by_default`` is the feature gate
    ``DefaultToRetryOnFailure``.
    """

    forced: bool = False
    target: Callable[[], Target] = lambda: Target.NONE
    retries_by_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The next action, or None; the reason, for the log; and the new history."""

    action: Action | None
    why: str
    history: tuple[Snapshot, ...]


class RetriesExceededError(StalledError):
    """There are no attempts left for the desired state."""

    default_reason = "RetriesExceeded"


class MissingRollbackTargetError(StalledError):
    """There is no release to roll back to."""

    default_reason = "MissingRollbackTarget"


def decide(state: State, obj: HelmRelease, facts: Facts) -> Decision:
    """Return the next action for a release in this state.

    Raises:
        RetriesExceededError: no attempts are left. The desired state must change, or a user must
            request an attempt by annotation.
        MissingRollbackTargetError: a rollback is due, but the history has no release for it.
    """
    return _RULES[state](obj, facts)


def may_run(action: Action, done: tuple[Action, ...]) -> bool:
    """Tell whether an action may run after those of ``done`` in the same reconciliation."""
    return KINDS[action] not in {KINDS[each] for each in done}


class Next(Enum):
    """How a reconciliation continues after an action, or if the next action may not run."""

    OBSERVE = "observe"
    """Observe the release again."""
    RETRY = "retry"
    """Start again after the interval of the strategy."""
    REQUEUE = "requeue"
    """Start again with the usual back-off."""
    END = "end"
    """No attempts are left."""


def after(action: Action, obj: HelmRelease, *, retries_by_default: bool = False) -> Next:
    """Return how a reconciliation continues after a successful action; a remediation ends it.

    Raises:
        RetriesExceededError: the action was the remediation after the last attempt.
    """
    if KINDS[action] is not Kind.REMEDIATE:
        return Next.OBSERVE
    stopped = _stopped(obj, retries_by_default=retries_by_default)
    remediation = policies.active(obj)
    upgrades = obj.status.last_attempted_release_action == "upgrade"
    if stopped is Next.END and remediation:
        if upgrades and remediation.way == "uninstall":
            # After an uninstallation the release is installed again, even if upgrades failed.
            return Next.REQUEUE
        raise exceeded(obj)
    return stopped


def instead(obj: HelmRelease, *, retries_by_default: bool = False) -> Next:
    """Return how a reconciliation continues if the next action may not run in it."""
    return _stopped(obj, retries_by_default=retries_by_default)


def _stopped(obj: HelmRelease, *, retries_by_default: bool) -> Next:
    if policies.retry_seconds(obj, by_default=retries_by_default) is not None:
        return Next.RETRY
    remediation = policies.active(obj)
    return Next.END if remediation and remediation.exhausted else Next.REQUEUE


def exceeded(obj: HelmRelease) -> RetriesExceededError:
    """Return the error with the last action and the number of its failed attempts."""
    remediation = policies.active(obj)
    failures = remediation.failures if remediation else 0
    return RetriesExceededError(
        f"Failed to {obj.status.last_attempted_release_action} after {failures} attempt(s)"
    )


def _decision(obj: HelmRelease, action: Action | None, why: str) -> Decision:
    return Decision(action=action, why=why, history=tuple(obj.status.history))


def _absent(obj: HelmRelease, facts: Facts) -> Decision:
    if policies.remediation(obj, "install").exhausted and not facts.forced:
        raise exceeded(obj)
    return _decision(obj, Action.INSTALL, "release not installed")


def _unmanaged(obj: HelmRelease, facts: Facts) -> Decision:
    del obj, facts
    # The entries of the history are about another release.
    return Decision(action=Action.UPGRADE, why="release not managed by controller", history=())


def _out_of_sync(obj: HelmRelease, facts: Facts) -> Decision:
    if policies.remediation(obj, "upgrade").exhausted and not facts.forced:
        raise exceeded(obj)
    return _decision(obj, Action.UPGRADE, "release out-of-sync with desired state")


def _locked(obj: HelmRelease, facts: Facts) -> Decision:
    del facts
    return _decision(obj, Action.UNLOCK, "release locked")


def _drifted(obj: HelmRelease, facts: Facts) -> Decision:
    del facts
    corrects = policies.drift_mode(obj) == "enabled"
    return _decision(obj, Action.CORRECT if corrects else None, "detected changes in cluster state")


def _untested(obj: HelmRelease, facts: Facts) -> Decision:
    del facts
    return _decision(obj, Action.TEST, "release has not been tested")


def _in_sync(obj: HelmRelease, facts: Facts) -> Decision:
    retries = policies.retry_seconds(obj, by_default=facts.retries_by_default) is not None
    kept = _kept(obj, policies.active(obj), retries=retries)
    if facts.forced:
        return Decision(
            action=Action.UPGRADE, why="forcing upgrade for in-sync release", history=kept
        )
    return Decision(action=None, why="release in-sync with desired state", history=kept)


def _failed(obj: HelmRelease, facts: Facts) -> Decision:
    if policies.retry_seconds(obj, by_default=facts.retries_by_default) is not None:
        kept = _kept(obj, None, retries=True)
        return Decision(
            action=Action.UPGRADE, why="retrying upgrade for failed release", history=kept
        )
    remediation = policies.active(obj)
    if remediation is None:
        return _decision(obj, Action.UPGRADE, "no active remediation strategy")
    if remediation.failures <= 0:
        return _decision(obj, Action.UPGRADE, "release conditions have changed since last failure")
    if facts.forced:
        return _decision(obj, Action.UPGRADE, "forcing upgrade for failed release")
    if remediation.exhausted and not remediation.last:
        raise exceeded(obj)
    return _remediate(obj, facts, remediation)


def _remediate(obj: HelmRelease, facts: Facts, remediation: Remediation) -> Decision:
    kept = _kept(obj, remediation, retries=False)
    if remediation.way == "uninstall":
        return Decision(action=Action.UNINSTALL, why="release failed", history=kept)
    match facts.target():
        case Target.INTACT:
            return Decision(action=Action.ROLLBACK, why="release failed", history=kept)
        case Target.CHANGED:
            why = "unable to verify previous release in storage to roll back to"
            return Decision(action=Action.UPGRADE, why=why, history=kept)
        case Target.NONE:
            raise MissingRollbackTargetError(
                "Failed to perform remediation: missing target release for rollback: cannot "
                "remediate failed release"
            )


def _kept(
    obj: HelmRelease, remediation: Remediation | None, *, retries: bool
) -> tuple[Snapshot, ...]:
    if retries:
        return snapshots.shortened(obj.status.history)
    ignores = remediation.ignores_tests if remediation else policies.ignores_tests(obj)
    return snapshots.truncated(obj.status.history, ignores_tests=ignores)


_RULES: Final[Mapping[State, Callable[[HelmRelease, Facts], Decision]]] = MappingProxyType(
    {
        State.ABSENT: _absent,
        State.UNMANAGED: _unmanaged,
        State.OUT_OF_SYNC: _out_of_sync,
        State.LOCKED: _locked,
        State.DRIFTED: _drifted,
        State.UNTESTED: _untested,
        State.FAILED: _failed,
        State.IN_SYNC: _in_sync,
    }
)
