"""The end of a reconciliation after the apply: at once, or when the objects are healthy.

A wait does not occupy a worker. While objects are not ready, the reconciliation ends with
Ready=Unknown, and the watches start the next one when the verdict is final. Each interval checks
the health again in the caches of the watches, which costs no request.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from controllers.applying import waiting
from controllers.applying.clusters import Cluster
from controllers.applying.waiting import HealthCheckError, Wait
from controllers.kustomize import history
from controllers.kustomize.memory import Applied
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from crds.meta import NamespacedObjectKindReference, format_duration
from toolkit import inventory
from toolkit.apply.changes import ChangeSet
from toolkit.apply.wait import Verdict
from toolkit.kube import conditions
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.objects import GroupVersionKind, ObjectRef

Pass = Reconciliation[Kustomization]

SUCCEEDED: Final = "ReconciliationSucceeded"
HEALTHY: Final = "Healthy"


def awaited(obj: Kustomization, changes: ChangeSet) -> tuple[ObjectRef, ...]:
    """Return the objects to wait for.

    With ``spec.wait`` these are all applied objects, otherwise those of ``spec.healthChecks``. A
    Kustomization that is part of its own build is left out.
    """
    own = ("kustomize.toolkit.fluxcd.io", "Kustomization", obj.metadata.namespace)
    if obj.spec.wait:
        refs = sent(changes)
    else:
        refs = [_checked(obj, check, changes) for check in obj.spec.health_checks]
    return tuple(ref for ref in refs if ref.identity != (*own, obj.metadata.name))


def sent(changes: ChangeSet) -> list[ObjectRef]:
    """Return the applied objects without skipped ones, for which access may not be checked."""
    return [entry.ref for entry in changes.entries if entry.action != "skipped"]


async def progress(rec: Pass, sources: Sources) -> str:
    """Set the conditions of a reconciliation in progress, and return their message.

    The message is the same before the apply and during the wait, so it costs one status patch.
    """
    spec = rec.obj.spec
    waits = spec.wait or spec.health_checks
    doing = "Running health checks" if waits else "Detecting drift"
    timeout = format_duration(spec.timeout_seconds)
    message = f"{doing} for revision {sources.revision} with a timeout of {timeout}"
    if waits:
        rec.mark(HEALTHY, "Unknown", "Progressing", message)
    await rec.progress(message)
    return message


@contextlib.contextmanager
def announced(rec: Pass) -> Iterator[None]:
    """Restore the condition Healthy if the apply fails, because then there is no wait."""
    before = conditions.find(rec.conditions, HEALTHY)
    try:
        yield
    except BaseException:
        rec.conditions = conditions.restore(rec.conditions, HEALTHY, before)
        raise


async def settle(
    rec: Pass, sources: Sources, cluster: Cluster, applied: Applied, *, fail_fast: bool
) -> Outcome:
    """Return the outcome of a reconciliation, which depends on the health of applied objects.

    With ``fail_fast`` one failed object ends the wait.

    Raises:
        HealthCheckError: an object failed, or the timeout has expired.
    """
    if applied.awaited:
        if applied.was_healthy is None:
            applied.was_healthy = conditions.is_true(rec.conditions, HEALTHY)
        wait = _wait(rec.obj, applied, fail_fast=fail_fast)
        verdict = waiting.verdict(cluster, rec.key, wait)
        if verdict.state == "waiting":
            applied.settled = False
            return Outcome(
                message=await progress(rec, sources),
                reason="Progressing",
                ready="Unknown",
                requeue_after=waiting.look_again(cluster, applied.awaited),
            )
        waiting.end(cluster, rec.key)
        passed = _judge(rec, sources, verdict, applied)
    else:
        rec.unmark(HEALTHY)
        passed = ""
    return _concluded(rec, sources, applied, passed=passed)


def _wait(obj: Kustomization, applied: Applied, *, fail_fast: bool) -> Wait:
    return Wait(
        awaited=applied.awaited,
        applied=frozenset(ref.identity for ref in applied.inventory),
        may_vanish=applied.may_vanish,
        timeout=obj.spec.timeout_seconds,
        fail_fast=fail_fast,
    )


def _judge(rec: Pass, sources: Sources, verdict: Verdict, applied: Applied) -> str:
    """Set the condition Healthy; return the text of an event if the health has changed.

    Raises:
        HealthCheckError: an object failed, or the timeout has expired.
    """
    took = format_duration(verdict.seconds)
    was_healthy, applied.was_healthy = applied.was_healthy, None
    if verdict.state == "healthy":
        message = f"Health check passed in {took}"
        moved = rec.obj.status.last_applied_revision != sources.revision and applied.changed
        if not conditions.is_true(rec.conditions, HEALTHY) or moved:
            rec.mark(HEALTHY, "True", "Succeeded", message)
        return message if not was_healthy or moved else ""
    applied.settled = False
    message = waiting.told(verdict)
    rec.mark(HEALTHY, "False", HealthCheckError.default_reason, message)
    rec.status({"inventory": {"entries": inventory.encode(applied.inventory)}})
    history.record(
        rec,
        sources,
        digest=applied.digest,
        reason=HealthCheckError.default_reason,
        started=applied.started,
    )
    raise HealthCheckError(f"health check failed after {took}: {message}")


def _concluded(rec: Pass, sources: Sources, applied: Applied, *, passed: str) -> Outcome:
    _tell(rec, applied, passed=passed)
    if not applied.settled:
        applied.settled = True
        rec.status(
            {
                "lastAppliedRevision": sources.revision,
                "lastAppliedOriginRevision": sources.origin_revision or None,
                "inventory": {"entries": inventory.encode(applied.inventory)},
            }
        )
        history.record(
            rec,
            sources,
            digest=applied.digest,
            reason=SUCCEEDED,
            started=applied.started,
        )
    return Outcome(
        message=f"Applied revision: {sources.revision}",
        reason=SUCCEEDED,
        requeue_after=rec.obj.spec.interval_seconds,
    )


def _tell(rec: Pass, applied: Applied, *, passed: str) -> None:
    """Send Flux's events of a successful reconciliation.

    The cluster gets one Event with all texts.
    """
    wanted = "requested" in rec.triggers or not _is_ready(rec)
    # Flux sends an event at the end of every reconciliation. Without changes, only Providers that
    # set the status of a new commit need it, so it goes only to the notification controller.
    ends = wanted or not applied.settled
    shown = wanted or applied.changed
    if passed:
        # The reason of Ready at this time, as in Flux.
        rec.event("info", "Progressing", passed, cluster=not (ends and shown))
    if ends:
        seconds = time.monotonic() - applied.started
        rec.event(
            "info",
            SUCCEEDED,
            _finished(rec.obj, seconds=seconds),
            {"commit_status": "update"},
            cluster=shown,
            preceded_by=passed,
        )


def _finished(obj: Kustomization, *, seconds: float) -> str:
    """Return the text of the event of a successful reconciliation."""
    took, interval = format_duration(seconds), format_duration(obj.spec.interval_seconds)
    return f"Reconciliation finished in {took}, next run in {interval}"


def _is_ready(rec: Pass) -> bool:
    return rec.before is not None and rec.before.get("status") == "True"


def _checked(
    obj: Kustomization, check: NamespacedObjectKindReference, changes: ChangeSet
) -> ObjectRef:
    """Return the object that a health check names.

    Without an API version, the version is that of an applied object of the same kind, or else
    ``v1``.
    """
    gvk = GroupVersionKind.parse(check.api_version, check.kind)
    if not check.api_version:
        applied = (ref.gvk for ref in changes.refs if ref.gvk.kind == check.kind)
        gvk = next(applied, GroupVersionKind("", "v1", check.kind))
    return ObjectRef(gvk, check.namespace or obj.metadata.namespace, check.name)
