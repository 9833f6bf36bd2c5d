"""How a pass that has applied everything ends: at once, or when its objects are healthy.

A wait holds no worker. While objects are on their way the pass ends with Ready=Unknown; the watches
start the next one when the verdict is there. At every interval health is looked at again, in the
watches' memory, which costs no request.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from controllers.kustomize import reporting
from controllers.kustomize.clusters import Cluster
from controllers.kustomize.memory import Applied
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from crds.meta import NamespacedObjectKindReference, format_duration
from toolkit import inventory
from toolkit.apply import bounded
from toolkit.apply.changes import ChangeSet
from toolkit.apply.wait import Verdict
from toolkit.errors import TransientError
from toolkit.kube import conditions
from toolkit.kube.client import Client
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, ObjectRef

Pass = Reconciliation[Kustomization]

SUCCEEDED: Final = "ReconciliationSucceeded"
HEALTHY: Final = "Healthy"
_STALLED: Final = "failed early due to stalled resources"
_READING: Final = 4
_LOOK_AGAIN_SECONDS: Final = 2.0
"""How soon it is found out that a kind is not watchable, and then how often it is looked at."""


class HealthCheckError(TransientError):
    """Applied objects failed, or did not become healthy in time."""

    default_reason = "HealthCheckFailed"


def awaited(obj: Kustomization, changes: ChangeSet) -> tuple[ObjectRef, ...]:
    """Return the objects whose health counts: all applied ones, or those of ``healthChecks``.

    A Kustomization that is part of its own build is not waited for.
    """
    own = ("kustomize.toolkit.fluxcd.io", "Kustomization", obj.metadata.namespace)
    if obj.spec.wait:
        refs = [entry.ref for entry in changes.entries if entry.action != "skipped"]
    else:
        refs = [_checked(obj, check, changes) for check in obj.spec.health_checks]
    return tuple(ref for ref in refs if ref.identity != (*own, obj.metadata.name))


async def require_access(client: Client, refs: Sequence[ObjectRef], changes: ChangeSet) -> None:
    """Require that whoever applies may read those awaited objects that it did not apply.

    The watches see everything, and CEL expressions can ask for any field: without this, health
    checks would read other tenants' Secrets.

    Raises:
        HealthCheckError: one may not be read, or cannot be.
    """
    # a skipped object was perhaps never asked about
    applied = {entry.ref.identity for entry in changes.entries if entry.action != "skipped"}
    foreign = [ref for ref in refs if ref.identity not in applied]

    async def read(ref: ObjectRef) -> None:
        with contextlib.suppress(NotFoundError):
            await client.get(ref.gvk, ref.name, ref.namespace)

    results = await bounded.each(foreign, read, limit=_READING)
    for ref, result in zip(foreign, results, strict=True):
        if isinstance(result, ApiError):
            raise HealthCheckError(f"health check of {ref}: {result}") from result


def announce(rec: Pass, message: str) -> None:
    """Show that health will be awaited, in the status write that precedes the apply."""
    if rec.obj.spec.wait or rec.obj.spec.health_checks:
        rec.mark(HEALTHY, "Unknown", "Progressing", message)


@contextlib.contextmanager
def announced(rec: Pass) -> Iterator[None]:
    """Restore the condition Healthy if the apply fails: nothing is awaited then."""
    before = conditions.find(rec.conditions, HEALTHY)
    try:
        yield
    except BaseException:
        rec.conditions = conditions.restore(rec.conditions, HEALTHY, before)
        raise


async def settle(
    rec: Pass, sources: Sources, cluster: Cluster, applied: Applied, *, fail_fast: bool
) -> Outcome:
    """Conclude the pass by the health of what was applied.

    With ``fail_fast`` one failed object ends the wait.

    Raises:
        HealthCheckError: an object failed, or the time is up.
    """
    if applied.awaited:
        if applied.was_healthy is None:
            applied.was_healthy = conditions.is_true(rec.conditions, HEALTHY)
        verdict = _verdict(rec, cluster, applied, fail_fast=fail_fast)
        if verdict.state == "waiting":
            applied.settled = False
            # the same as before the apply, so it usually costs no further write
            message = reporting.progress_message(rec.obj, sources)
            rec.mark(HEALTHY, "Unknown", "Progressing", message)
            await rec.progress(message)
            seen = all(cluster.live.current(ref) for ref in applied.awaited)
            look_again = None if seen else _LOOK_AGAIN_SECONDS
            return Outcome(
                message=message, reason="Progressing", ready="Unknown", requeue_after=look_again
            )
        cluster.waits.cancel(rec.key)
        cluster.live.observe(rec.key, ())
        _judge(rec, sources, verdict, applied)
    else:
        rec.unmark(HEALTHY)
    return _concluded(rec, sources, applied)


def _verdict(rec: Pass, cluster: Cluster, applied: Applied, *, fail_fast: bool) -> Verdict:
    """Return how the wait stands; begin one if none is under way."""
    unwatched = cluster.live.unwatched(rec.key)
    applied_here = {ref.identity for ref in applied.inventory}
    cluster.live.observe(
        rec.key,
        [
            ref
            for ref in applied.awaited
            if ref.gvk in unwatched or ref.identity not in applied_here
        ],
    )
    verdict = cluster.waits.verdict(rec.key)
    if verdict is not None:
        return verdict
    return cluster.waits.begin(
        rec.key,
        applied.awaited,
        timeout=rec.obj.spec.timeout_seconds,
        may_vanish=applied.may_vanish,
        fail_fast=fail_fast,
    )


def _judge(rec: Pass, sources: Sources, verdict: Verdict, applied: Applied) -> None:
    took = format_duration(verdict.seconds)
    was_healthy, applied.was_healthy = applied.was_healthy, None
    if verdict.state == "healthy":
        message = f"Health check passed in {took}"
        moved = rec.obj.status.last_applied_revision != sources.revision and applied.changed
        if not was_healthy or moved:
            # the reason that Ready has meanwhile, as in Flux
            rec.event("info", "Progressing", message)
        if not conditions.is_true(rec.conditions, HEALTHY) or moved:
            rec.mark(HEALTHY, "True", "Succeeded", message)
        return
    applied.settled = False
    why = "timeout waiting for" if verdict.state == "timeout" else _STALLED
    message = f"{why}: [{verdict}]"
    rec.mark(HEALTHY, "False", HealthCheckError.default_reason, message)
    rec.status({"inventory": {"entries": inventory.encode(applied.inventory)}})
    reporting.record_history(
        rec,
        sources,
        digest=applied.digest,
        reason=HealthCheckError.default_reason,
        started=applied.started,
    )
    raise HealthCheckError(f"health check failed after {took}: {message}")


def _concluded(rec: Pass, sources: Sources, applied: Applied) -> Outcome:
    if not applied.settled or "requested" in rec.triggers or not _is_ready(rec):
        # Flux tells it after every pass; one that changed nothing is no news.
        seconds = time.monotonic() - applied.started
        rec.event(
            "info",
            SUCCEEDED,
            reporting.finished_message(rec.obj, seconds=seconds),
            {"commit_status": "update"},
        )
    if not applied.settled:
        applied.settled = True
        rec.status(
            {
                "lastAppliedRevision": sources.revision,
                "lastAppliedOriginRevision": sources.origin_revision or None,
                "inventory": {"entries": inventory.encode(applied.inventory)},
            }
        )
        reporting.record_history(
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


def _is_ready(rec: Pass) -> bool:
    return rec.before is not None and rec.before.get("status") == "True"


def _checked(
    obj: Kustomization, check: NamespacedObjectKindReference, changes: ChangeSet
) -> ObjectRef:
    """Return the object that a health check names.

    Without an API version it is the kind as applied here, else one of the core group.
    """
    gvk = GroupVersionKind.parse(check.api_version, check.kind)
    if not check.api_version:
        applied = (ref.gvk for ref in changes.refs if ref.gvk.kind == check.kind)
        gvk = next(applied, GroupVersionKind("", "v1", check.kind))
    return ObjectRef(gvk, check.namespace or obj.metadata.namespace, check.name)
