"""What is done about each state under each policy, as Flux does it (``atomic_release_test.go``)."""

from typing import Any

import pytest

from controllers.helm.deciding import decisions
from controllers.helm.deciding.decisions import (
    Action,
    Facts,
    MissingRollbackTargetError,
    Next,
    RetriesExceededError,
    Target,
)
from controllers.helm.deciding.states import State
from tests.fakes.releases import history, release, snapshot
from toolkit.errors import StalledError

Json = dict[str, Any]
Expected = Action | type[StalledError] | None

EXCEEDED = RetriesExceededError
NO_TARGET = MissingRollbackTargetError
SETTLED = {
    State.LOCKED: Action.UNLOCK,
    State.UNTESTED: Action.TEST,
    State.UNMANAGED: Action.UPGRADE,
}
"""States in which the policy does not matter."""


def install(**remediation: Any) -> Json:
    return {"install": {"remediation": remediation}}


def upgrade(**remediation: Any) -> Json:
    return {"upgrade": {"remediation": remediation}}


RETRIES: Json = {
    action: {"strategy": {"name": "RetryOnFailure", "retryInterval": "1m"}}
    for action in ("install", "upgrade")
}
INSTALLED: Json = {"lastAttemptedReleaseAction": "install"}
UPGRADED: Json = {"lastAttemptedReleaseAction": "upgrade"}


def failures(count: int, of: Json) -> Json:
    action = of["lastAttemptedReleaseAction"]
    return {**of, f"{action}Failures": count}


INTACT, CHANGED, NONE = Target.INTACT, Target.CHANGED, Target.NONE
ROWS: list[tuple[State, Json, Json, Target, Expected, Expected]] = [
    # state, spec, status, what storage has to go back to, action, action by force
    (State.ABSENT, {}, {}, NONE, Action.INSTALL, Action.INSTALL),
    (State.ABSENT, {}, failures(1, INSTALLED), NONE, EXCEEDED, Action.INSTALL),
    (State.ABSENT, install(retries=1), failures(1, INSTALLED), NONE, *(Action.INSTALL,) * 2),
    (State.ABSENT, install(retries=1), failures(2, INSTALLED), NONE, EXCEEDED, Action.INSTALL),
    (State.ABSENT, install(retries=-1), failures(99, INSTALLED), NONE, *(Action.INSTALL,) * 2),
    (State.OUT_OF_SYNC, {}, {}, NONE, Action.UPGRADE, Action.UPGRADE),
    (State.OUT_OF_SYNC, {}, failures(1, UPGRADED), NONE, EXCEEDED, Action.UPGRADE),
    (State.OUT_OF_SYNC, upgrade(retries=1), failures(1, UPGRADED), NONE, *(Action.UPGRADE,) * 2),
    (State.OUT_OF_SYNC, upgrade(retries=-1), failures(9, UPGRADED), NONE, *(Action.UPGRADE,) * 2),
    # no attempt yet: whatever failed, it was not ours
    (State.FAILED, {}, {}, NONE, Action.UPGRADE, Action.UPGRADE),
    # nothing failed since the desired state changed
    (State.FAILED, {}, INSTALLED, NONE, Action.UPGRADE, Action.UPGRADE),
    (State.FAILED, upgrade(retries=1), UPGRADED, INTACT, Action.UPGRADE, Action.UPGRADE),
    # a failed installation
    (State.FAILED, {}, failures(1, INSTALLED), NONE, EXCEEDED, Action.UPGRADE),
    (
        State.FAILED,
        install(retries=1),
        failures(1, INSTALLED),
        NONE,
        Action.UNINSTALL,
        Action.UPGRADE,
    ),
    (State.FAILED, install(retries=1), failures(2, INSTALLED), NONE, EXCEEDED, Action.UPGRADE),
    (
        State.FAILED,
        install(remediateLastFailure=True),
        failures(1, INSTALLED),
        NONE,
        Action.UNINSTALL,
        Action.UPGRADE,
    ),
    # a failed upgrade
    (State.FAILED, {}, failures(1, UPGRADED), INTACT, EXCEEDED, Action.UPGRADE),
    (
        State.FAILED,
        upgrade(retries=1),
        failures(1, UPGRADED),
        INTACT,
        Action.ROLLBACK,
        Action.UPGRADE,
    ),
    (
        State.FAILED,
        upgrade(retries=1),
        failures(2, UPGRADED),
        INTACT,
        Action.ROLLBACK,
        Action.UPGRADE,
    ),
    (
        State.FAILED,
        upgrade(retries=1, remediateLastFailure=False),
        failures(2, UPGRADED),
        INTACT,
        EXCEEDED,
        Action.UPGRADE,
    ),
    (
        State.FAILED,
        upgrade(remediateLastFailure=True),
        failures(1, UPGRADED),
        INTACT,
        Action.ROLLBACK,
        Action.UPGRADE,
    ),
    (State.FAILED, upgrade(retries=1), failures(1, UPGRADED), CHANGED, *(Action.UPGRADE,) * 2),
    (State.FAILED, upgrade(retries=1), failures(1, UPGRADED), NONE, NO_TARGET, Action.UPGRADE),
    (
        State.FAILED,
        upgrade(retries=1, strategy="uninstall"),
        failures(1, UPGRADED),
        NONE,
        Action.UNINSTALL,
        Action.UPGRADE,
    ),
    # try again in place, without end
    (State.FAILED, RETRIES, failures(99, INSTALLED), NONE, Action.UPGRADE, Action.UPGRADE),
    (State.FAILED, RETRIES, failures(99, UPGRADED), INTACT, Action.UPGRADE, Action.UPGRADE),
    (State.IN_SYNC, {}, {}, NONE, None, Action.UPGRADE),
    (State.IN_SYNC, RETRIES, UPGRADED, NONE, None, Action.UPGRADE),
    (State.DRIFTED, {"driftDetection": {"mode": "warn"}}, {}, NONE, None, None),
    (
        State.DRIFTED,
        {"driftDetection": {"mode": "enabled"}},
        {},
        NONE,
        Action.CORRECT,
        Action.CORRECT,
    ),
    *(
        (state, spec, status, NONE, action, action)
        for state, action in SETTLED.items()
        for spec in ({}, RETRIES, install(retries=1))
        for status in ({}, failures(9, INSTALLED), failures(9, UPGRADED))
    ),
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("forced", [False, True])
def test_a_state_is_followed_by_an_action(
    row: tuple[State, Json, Json, Target, Expected, Expected], *, forced: bool
) -> None:
    state, spec, status, target, expected, by_force = row

    found = outcome(state, spec, status, Facts(forced=forced, target=lambda: target))

    assert found == (by_force if forced else expected)


def outcome(state: State, spec: Json, status: Json, facts: Facts) -> Expected:
    try:
        return decisions.decide(state, release(spec=spec, status=status), facts).action
    except StalledError as error:
        return type(error)


def test_there_is_a_row_for_every_state() -> None:
    assert {row[0] for row in ROWS} == set(State)


def test_storage_is_asked_for_a_target_only_where_one_is_needed() -> None:
    def never() -> Target:
        raise AssertionError("nothing is rolled back")

    for state, spec, status, *_ in ROWS:
        if state is not State.FAILED:
            outcome(state, spec, status, Facts(target=never))


def test_the_gate_tries_again_in_place_where_nothing_else_is_said() -> None:
    facts = Facts(retries_by_default=True)
    remediates = {"upgrade": {"strategy": {"name": "RemediateOnFailure"}}}

    assert outcome(State.FAILED, {}, failures(9, UPGRADED), facts) is Action.UPGRADE
    assert outcome(State.FAILED, remediates, failures(9, UPGRADED), facts) is EXCEEDED


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (failures(1, INSTALLED), "Failed to install after 1 attempt(s)"),
        (failures(3, UPGRADED), "Failed to upgrade after 3 attempt(s)"),
    ],
)
def test_no_more_attempts_stall_the_object(status: Json, told: str) -> None:
    with pytest.raises(RetriesExceededError, match=r"attempt\(s\)") as caught:
        decisions.decide(State.FAILED, release(status=status), Facts())

    assert (caught.value.reason, str(caught.value)) == ("RetriesExceeded", told)


def test_a_missing_target_stalls_the_object() -> None:
    obj = release(spec=upgrade(retries=1), status=failures(1, UPGRADED))

    with pytest.raises(MissingRollbackTargetError) as caught:
        decisions.decide(State.FAILED, obj, Facts())

    assert caught.value.reason == "MissingRollbackTarget"
    assert str(caught.value) == (
        "Failed to perform remediation: missing target release for rollback: cannot remediate "
        "failed release"
    )


FOUR = (
    snapshot(4, "failed"),
    snapshot(3, "failed"),
    snapshot(2, "superseded"),
    snapshot(1, "superseded"),
)
MANY = tuple(snapshot(number, "failed") for number in range(9, 0, -1))


@pytest.mark.parametrize(
    ("state", "spec", "status", "before", "kept"),
    [
        (State.UNMANAGED, {}, {}, FOUR, []),
        (State.IN_SYNC, {}, {}, FOUR, [4, 3, 2]),
        (State.IN_SYNC, {}, {}, MANY, [9, 8, 7, 6, 5]),
        (State.IN_SYNC, RETRIES, UPGRADED, FOUR, [4, 3, 2, 1]),
        (State.IN_SYNC, RETRIES, UPGRADED, MANY, [9, 8, 7, 6, 5]),
        (State.FAILED, RETRIES, UPGRADED, MANY, [9, 8, 7, 6, 5]),
        (State.FAILED, upgrade(retries=1), failures(1, UPGRADED), FOUR, [4, 3, 2]),
        (State.FAILED, {}, {}, FOUR, [4, 3, 2, 1]),
        (State.OUT_OF_SYNC, {}, {}, FOUR, [4, 3, 2, 1]),
    ],
)
def test_history_is_kept_up_to_what_may_be_gone_back_to(
    state: State, spec: Json, status: Json, before: tuple[Any, ...], kept: list[int]
) -> None:
    obj = release(spec=spec, status={**status, **history(*before)})

    decision = decisions.decide(state, obj, Facts(target=lambda: Target.INTACT))

    assert [each.version for each in decision.history] == kept


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (upgrade(retries=2), failures(1, UPGRADED), Next.REQUEUE),
        (upgrade(retries=1), failures(2, UPGRADED), EXCEEDED),
        (upgrade(retries=1, strategy="uninstall"), failures(2, UPGRADED), Next.REQUEUE),
        (install(retries=1), failures(1, INSTALLED), Next.REQUEUE),
        (install(retries=1), failures(2, INSTALLED), EXCEEDED),
        (RETRIES, failures(2, UPGRADED), Next.RETRY),
        ({}, {}, Next.REQUEUE),
    ],
)
def test_a_remediation_ends_the_pass(spec: Json, status: Json, expected: object) -> None:
    obj = release(spec=spec, status=status)

    for action in (Action.ROLLBACK, Action.UNINSTALL):
        if expected is EXCEEDED:
            with pytest.raises(EXCEEDED):
                decisions.after(action, obj)
        else:
            assert decisions.after(action, obj) is expected


@pytest.mark.parametrize(
    "action", [Action.INSTALL, Action.UPGRADE, Action.TEST, Action.UNLOCK, Action.CORRECT]
)
def test_other_actions_are_followed_by_a_look(action: Action) -> None:
    assert decisions.after(action, release(status=failures(9, UPGRADED))) is Next.OBSERVE


@pytest.mark.parametrize(
    ("done", "action", "expected"),
    [
        ((), Action.INSTALL, True),
        ((Action.UNLOCK,), Action.UPGRADE, True),
        ((Action.UPGRADE,), Action.TEST, True),
        ((Action.UPGRADE, Action.TEST), Action.ROLLBACK, True),
        ((Action.INSTALL,), Action.UPGRADE, False),
        ((Action.CORRECT,), Action.CORRECT, False),
        ((Action.UNLOCK,), Action.UNLOCK, False),
    ],
)
def test_each_kind_of_action_runs_once_in_a_pass(
    done: tuple[Action, ...], action: Action, *, expected: bool
) -> None:
    assert decisions.may_run(action, done) is expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (RETRIES, failures(1, UPGRADED), Next.RETRY),
        (upgrade(retries=3), failures(1, UPGRADED), Next.REQUEUE),
        ({}, failures(1, UPGRADED), Next.END),
        ({}, {}, Next.REQUEUE),
    ],
)
def test_an_action_that_may_not_run_ends_the_pass(spec: Json, status: Json, expected: Next) -> None:
    assert decisions.instead(release(spec=spec, status=status)) is expected
