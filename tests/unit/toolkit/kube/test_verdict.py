"""The table of ``toolkit.kube.verdict``, row by row."""

import pytest

from toolkit import errors
from toolkit.kube import verdict
from toolkit.kube.controller import Outcome
from toolkit.kube.verdict import Verdict


def judge(exc: Exception, *, retry_interval: float | None = None) -> Verdict:
    return verdict.failed(
        exc, requeue_dependency=30.0, retry_interval=retry_interval, reconcile_id="id-1"
    )


def test_success_plans_the_interval() -> None:
    result = verdict.succeeded(Outcome(message="fine", requeue_after=60))

    assert (result.ready, result.reconciling, result.stalled) == ("True", "", False)
    assert (result.plan, result.delay, result.result) == ("interval", 60, "requeue_after")


def test_success_without_interval_plans_nothing() -> None:
    result = verdict.succeeded(Outcome(message="fine"))

    assert (result.plan, result.result) == ("none", "success")


def test_going_on_is_reconciling() -> None:
    result = verdict.succeeded(Outcome(message="waiting", ready="Unknown"))

    assert (result.ready, result.reconciling) == ("Unknown", "Progressing")


def test_stalled_plans_nothing() -> None:
    result = judge(errors.StalledError("bad", reason="Bad"), retry_interval=5.0)

    assert (result.ready, result.reason, result.stalled) == ("False", "Bad", True)
    assert (result.reconciling, result.plan) == ("", "none")


def test_waiting_uses_its_own_delay_or_the_dependency_delay() -> None:
    default = judge(errors.WaitingError("wait"))
    own = judge(errors.WaitingError("wait", retry_after=0.0))

    assert (default.plan, default.delay, default.severity) == ("dependency", 30.0, "info")
    assert own.delay == 0.0


def test_transient_backs_off_unless_a_retry_interval_is_set() -> None:
    backing_off = judge(errors.TransientError("no", reason="No"))
    fixed = judge(errors.TransientError("no", reason="No"), retry_interval=5.0)

    assert (backing_off.plan, backing_off.reconciling) == ("backoff", "ProgressingWithRetry")
    assert (fixed.plan, fixed.delay) == ("retry", 5.0)
    assert not fixed.internal


@pytest.mark.parametrize("kind", [errors.StalledError, errors.WaitingError, errors.TransientError])
def test_failure_may_say_otherwise_in_ready_and_be_told_by_no_event(
    kind: type[errors.PenstockError],
) -> None:
    told = errors.Told(event="", ready=("InstallFailed", "it broke"))

    result = judge(kind("no attempts left", reason="Exceeded", told=told))

    assert (result.reason, result.message) == ("Exceeded", "no attempts left")
    assert (result.shown, result.event) == (("InstallFailed", "it broke"), "")


def test_a_bug_is_internal_and_keeps_its_text_to_itself() -> None:
    result = judge(ValueError("secret text"))

    assert result.internal
    assert result.message == "internal error (ValueError), see the log of reconcileID id-1"


def test_the_first_of_several_known_errors_counts() -> None:
    known = ExceptionGroup("g", [errors.WaitingError("first"), errors.TransientError("second")])

    assert judge(known).message == "first"


@pytest.mark.parametrize("other", [ValueError("x"), ExceptionGroup("h", [ValueError("x")])])
def test_a_bug_among_known_errors_stays_a_bug(other: Exception) -> None:
    group = ExceptionGroup("g", [errors.TransientError("known"), other])

    assert judge(group).internal
