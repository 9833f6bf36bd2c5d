"""The series of one controller and its objects (``telemetry``), and its closing log lines."""

import logging

from crds.meta import format_duration
from toolkit import telemetry
from toolkit.kube import conditions
from toolkit.kube.reconciliation import Reconcilable
from toolkit.kube.verdict import Verdict
from toolkit.objects import GroupVersionKind, ObjectKey


class Measure:
    """Keeps the series of existing objects current, and drops those of objects that are gone."""

    def __init__(self, gvk: GroupVersionKind, *, workers: int) -> None:
        self._kind = gvk.kind
        self._controller = gvk.kind.lower()
        self.active = telemetry.CONTROLLER_ACTIVE.labels(self._controller)
        telemetry.CONTROLLER_WORKERS.labels(self._controller).set(workers)

    def observe(self, obj: Reconcilable) -> None:
        """Set the gauges of an object from its spec and status."""
        meta = obj.metadata
        statuses = {row.type: row.status for row in obj.status.conditions}
        telemetry.OBJECTS.observe(
            self._series(ObjectKey(meta.namespace, meta.name)),
            suspended=obj.spec.suspend,
            ready=statuses.get(conditions.READY, "Unknown"),
            stalled=statuses.get(conditions.STALLED, "False"),
        )

    def finished(self, key: ObjectKey, judged: Verdict, seconds: float) -> None:
        """Count a pass over an object that is still there."""
        failed = judged.result == "error"
        telemetry.CONTROLLER_RECONCILES.labels(self._controller, judged.result).inc()
        telemetry.CONTROLLER_DURATION.labels(self._controller).observe(seconds)
        telemetry.OBJECTS.finished(self._series(key), seconds=seconds, failed=failed)
        if failed:
            telemetry.CONTROLLER_ERRORS.labels(self._controller).inc()

    def undecoded(self, number: int) -> None:
        """Set how many objects do not decode."""
        telemetry.UNDECODED.labels(self._kind).set(number)

    def forget(self, key: ObjectKey) -> None:
        """Remove the series of an object."""
        telemetry.OBJECTS.forget(self._series(key))

    def _series(self, key: ObjectKey) -> tuple[str, str, str]:
        return self._kind, key.name, key.namespace


def log_end(
    log: logging.LoggerAdapter[logging.Logger],
    judged: Verdict,
    *,
    seconds: float,
    delay: float | None,
) -> None:
    """Write the closing line of a pass, worded as Flux's controllers do."""
    took = format_duration(seconds)
    again = None if delay is None else format_duration(delay)
    if judged.severity == "error":
        following = f", next try in {again}" if again else ""
        log.error(
            "Reconciliation failed after %s%s", took, following, extra={"error": judged.message}
        )
    elif judged.ready == "False":
        log.info("%s, retrying in %s", judged.message, again)
    else:
        following = f", next run in {again}" if again else ""
        log.info("Reconciliation finished in %s%s", took, following)
