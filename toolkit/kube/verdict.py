"""How a pass ended, as conditions and a plan: the one place that maps errors to both. Pure.

| ended with        | Ready   | Reconciling          | Stalled | next pass            |
|-------------------|---------|----------------------|---------|----------------------|
| Outcome           | True    | removed              | removed | interval             |
| Outcome, Unknown  | Unknown | True, Progressing    | removed | interval             |
| StalledError      | False   | removed              | True    | when the spec changes|
| WaitingError      | False   | ProgressingWithRetry | removed | fixed delay          |
| TransientError    | False   | ProgressingWithRetry | removed | back-off             |
| any other         | False   | ProgressingWithRetry | removed | back-off             |
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from crds.meta import format_duration
from toolkit import errors
from toolkit.kube import conditions, predicates
from toolkit.kube.reconciliation import REQUESTED_AT, Outcome, Reconciliation, Severity

PROGRESSING: Final = "Progressing"
PROGRESSING_WITH_RETRY: Final = "ProgressingWithRetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The status and the plan after a reconciliation.

    - ``plan`` is the trigger of the next reconciliation, after ``delay`` seconds; ``backoff`` has
      its own delay.
    - ``event`` is the text of the event, if it is not ``message``; an empty text means no event.
    - ``shown`` are reason and message of Ready, if they are not ``reason`` and ``message``.
    - ``internal`` marks a bug, which is logged with its traceback.
    - ``written`` is false if the status is left to the next reconciliation.
    - ``result`` is the label of controller-runtime's metrics.
    """

    ready: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    reconciling: str = ""
    stalled: bool = False
    severity: Severity = "info"
    event: str | None = None
    shown: tuple[str, str] | None = None
    plan: Literal["none", "interval", "dependency", "retry", "backoff"] = "none"
    delay: float = 0.0
    internal: bool = False
    written: bool = True
    result: Literal["success", "requeue_after", "error"] = "success"


def succeeded(outcome: Outcome) -> Verdict:
    """Judge a pass that returned."""
    planned = outcome.requeue_after is not None
    return Verdict(
        ready=outcome.ready,
        reason=outcome.reason,
        message=outcome.message,
        reconciling=PROGRESSING if outcome.ready == "Unknown" else "",
        plan="interval" if planned else "none",
        delay=outcome.requeue_after or 0.0,
        result="requeue_after" if planned else "success",
    )


def failed(
    exc: Exception, *, requeue_dependency: float, retry_interval: float | None, reconcile_id: str
) -> Verdict:
    """Judge a pass that raised; ``retry_interval`` replaces the back-off."""
    cause = _leaf(exc)
    if isinstance(cause, errors.StalledError):
        return Verdict(
            ready="False",
            reason=cause.reason,
            message=str(cause),
            stalled=True,
            severity="error",
            event=cause.told.event,
            shown=cause.told.ready,
            result="error",
        )
    if isinstance(cause, errors.WaitingError):
        return _waiting(cause, requeue_dependency)
    if isinstance(cause, errors.PenstockError):
        judged = Verdict(
            ready="False",
            reason=cause.reason,
            message=str(cause),
            event=cause.told.event,
            shown=cause.told.ready,
        )
    else:
        judged = Verdict(
            ready="False",
            reason="ReconciliationFailed",
            message=_internal(cause, reconcile_id),
            internal=True,
        )
    return replace(
        judged,
        reconciling=PROGRESSING_WITH_RETRY,
        severity="error",
        plan="backoff" if retry_interval is None else "retry",
        delay=retry_interval or 0.0,
        result="error",
    )


def _waiting(cause: errors.WaitingError, requeue_dependency: float) -> Verdict:
    delay = requeue_dependency if cause.retry_after is None else cause.retry_after
    told, retrying = cause.told, f", retrying in {format_duration(delay)}"
    return Verdict(
        ready="False",
        reason=cause.reason,
        message=f"{cause}{retrying}" if told.delay else str(cause),
        reconciling=PROGRESSING_WITH_RETRY,
        severity="trace" if told.trace else "info",
        event=f"{told.event}{retrying}" if told.event else told.event,
        shown=told.ready,
        plan="dependency",
        delay=delay,
        written=not told.unwritten,
        result="requeue_after",
    )


def settle(rec: Reconciliation[Any], judged: Verdict) -> None:
    """Put the verdict into the draft's conditions and status.

    As in Flux, ``observedGeneration`` moves when the generation is done with (Ready, or Stalled),
    ``lastHandledReconcileAt`` when the pass has an answer.
    """
    if judged.stalled:
        rec.mark(conditions.STALLED, "True", judged.reason, judged.message)
    else:
        rec.unmark(conditions.STALLED)
    if judged.reconciling:
        rec.mark(conditions.RECONCILING, "True", judged.reconciling, judged.message)
    else:
        rec.unmark(conditions.RECONCILING)
    reason, message = judged.shown or (judged.reason, judged.message)
    rec.mark(conditions.READY, judged.ready, reason, message)
    meta = rec.obj.metadata
    if judged.ready == "True" or judged.stalled:
        rec.status({"observedGeneration": meta.generation})
    if judged.ready != "Unknown" and meta.annotations.get(REQUESTED_AT):
        rec.status({"lastHandledReconcileAt": meta.annotations[REQUESTED_AT]})


def is_settled(rec: Reconciliation[Any]) -> bool:
    """Tell whether the last pass left nothing to tidy: a quiet pass need not write then."""
    entries = rec.conditions
    return (
        conditions.is_true(entries, conditions.READY)
        and not conditions.find(entries, conditions.RECONCILING)
        and not conditions.find(entries, conditions.STALLED)
        and rec.obj.status.observed_generation == rec.obj.metadata.generation
        and not predicates.is_requested(rec.obj)
    )


def _leaf(exc: Exception) -> Exception:
    """Return the single error in the group of a TaskGroup, if it is one of ours."""
    if not isinstance(exc, ExceptionGroup):
        return exc
    leaves = [_leaf(inner) for inner in exc.exceptions]
    ours = all(isinstance(leaf, errors.PenstockError) for leaf in leaves)
    return leaves[0] if ours else exc


def _internal(exc: Exception, reconcile_id: str) -> str:
    """Name the kind of bug only: its text may hold anything."""
    return f"internal error ({type(exc).__name__}), see the log of reconcileID {reconcile_id}"
