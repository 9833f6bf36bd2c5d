"""Logs that the ``flux`` command line can read, and metrics that existing dashboards use.

Names and labels of ``gotk_*``, ``controller_runtime_*``, ``workqueue_*``, ``rest_client_*`` and
``leader_election_*`` are those of Flux, controller-runtime and client-go. Metrics are module
constants on the default registry, as ``prometheus_client`` recommends.
"""

import datetime as dt
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import msgspec
import prometheus_client as prom

from toolkit.series import ObjectSeries

OBJECTS: Final = ObjectSeries()
"""``gotk_reconcile_*`` and ``gotk_suspend_status``, which are of single objects."""
prom.REGISTRY.register(OBJECTS)

_SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
"""Buckets of ``controller_runtime_reconcile_time_seconds`` (controller-runtime, ``metrics.go``)."""

CONTROLLER_RECONCILES: Final = prom.Counter(
    "controller_runtime_reconcile", "Reconciliations per controller.", ("controller", "result")
)
CONTROLLER_ERRORS: Final = prom.Counter(
    "controller_runtime_reconcile_errors",
    "Reconciliations per controller that failed.",
    ("controller",),
)
CONTROLLER_DURATION: Final = prom.Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Duration of reconciliations per controller.",
    ("controller",),
    buckets=_SECONDS,
)
CONTROLLER_WORKERS: Final = prom.Gauge(
    "controller_runtime_max_concurrent_reconciles", "Workers per controller.", ("controller",)
)
CONTROLLER_ACTIVE: Final = prom.Gauge(
    "controller_runtime_active_workers", "Workers at work per controller.", ("controller",)
)
MIGRATED: Final = prom.Counter(
    "penstock_stored_objects_migrated", "Objects that were stored in the newest version.", ("kind",)
)
QUEUE_DEPTH: Final = prom.Gauge("workqueue_depth", "Keys waiting for a worker.", ("name",))
QUEUE_ADDS: Final = prom.Counter("workqueue_adds", "Keys added.", ("name",))
QUEUE_RETRIES: Final = prom.Counter("workqueue_retries", "Retries with back-off.", ("name",))
QUEUE_LATENCY: Final = prom.Histogram(
    "workqueue_queue_duration_seconds", "How long a key waits for a worker.", ("name",)
)
QUEUE_WORK: Final = prom.Histogram(
    "workqueue_work_duration_seconds", "How long a worker holds a key.", ("name",)
)
QUEUE_UNFINISHED: Final = prom.Gauge(
    "workqueue_unfinished_work_seconds", "Seconds of work in progress, summed up.", ("name",)
)
QUEUE_LONGEST: Final = prom.Gauge(
    "workqueue_longest_running_processor_seconds", "Age of the oldest work in progress.", ("name",)
)
CLIENT_REQUESTS: Final = prom.Counter(
    "rest_client_requests", "Requests to API servers.", ("code", "host", "method")
)
CLIENT_DURATION: Final = prom.Histogram(
    "rest_client_request_duration_seconds", "Latency of API requests.", ("host", "verb")
)
UNDECODED: Final = prom.Gauge(
    "penstock_undecodable_objects", "Objects that cannot be read now.", ("kind",)
)
INFORMER_DECODE_ERRORS: Final = prom.Counter(
    "penstock_informer_decode_errors", "Objects skipped because they do not decode.", ("kind",)
)
INFORMER_HANDLER_ERRORS: Final = prom.Counter(
    "penstock_informer_handler_errors", "Objects that a bug kept from being handled.", ("kind",)
)
INFORMER_RELISTS: Final = prom.Counter(
    "penstock_informer_lists", "Times a cache was filled anew.", ("kind",)
)
OBJECTS_LEFT: Final = prom.Counter(
    "penstock_objects_left", "Applied objects that a deleted applier could not delete.", ("kind",)
)
EVENTS_DROPPED: Final = prom.Counter(
    "penstock_events_dropped",
    "Events lost because the queue was full or sending failed.",
    ("sink",),
)
LEADER: Final = prom.Gauge(
    "leader_election_master_status", "Whether this process leads (1) or not (0).", ("name",)
)

_STANDARD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "fields",
}
_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "error": logging.ERROR,
}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``level, ts, msg`` and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record; fields come from ``extra`` and from an ``ObjectLogger``."""
        line: dict[str, Any] = {
            "level": "info" if record.levelno < logging.ERROR else "error",
            "ts": _timestamp(record.created),
            "msg": record.getMessage(),
        }
        if record.levelno < logging.INFO:
            line["level"] = "debug"
        line |= _fields(record)
        if record.exc_info and record.exc_info[0]:
            line.setdefault("error", str(record.exc_info[1]))
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class ConsoleFormatter(logging.Formatter):
    """Tab-separated lines for a terminal: time, level, message, fields as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record."""
        fields = _fields(record)
        parts = [_timestamp(record.created), record.levelname, record.getMessage()]
        if fields:
            parts.append(msgspec.json.encode(fields, enc_hook=str).decode())
        if record.exc_info and record.exc_info[0]:
            parts.append(self.formatException(record.exc_info))
        return "\t".join(parts)


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the keys of one reconciled object to every line.

    They travel in one attribute, because ``name`` is a field of ``LogRecord`` itself.
    """

    def also(self, **fields: object) -> "ObjectLogger":
        """Return a logger with more fields."""
        return ObjectLogger(self.logger, {**(self.extra or {}), **fields})

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Merge the object's fields with those of this call."""
        extra = dict(kwargs.get("extra") or {})
        kwargs["extra"] = {"fields": {**(self.extra or {}), **extra}}
        return msg, kwargs


def configure_logging(level: str, encoding: str) -> None:
    """Send all logs to standard error (``--log-level``, ``--log-encoding``)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if encoding == "json" else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    for noisy in ("asyncio", "aiohttp.access", "asyncssh"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, _LEVELS[level]))


def _timestamp(seconds: float) -> str:
    """Return a Unix time as RFC 3339 in UTC with microseconds."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    extra = {k: v for k, v in record.__dict__.items() if k not in _STANDARD_FIELDS}
    return {**getattr(record, "fields", {}), **extra}
