"""Metrics per reconciled object, with the names that Flux's dashboards use.

They are stored as plain numbers and become samples only when they are collected.
``prometheus_client`` would keep an object with a lock per number, which takes 9 KB per reconciled
object, and would scan all series to remove those of one object.

Reconcilers write from the event loop. ``collect`` runs in another thread and works on copies.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Key = tuple[str, str, str]
"""Kind, name and namespace of an object."""

_OBJECT: Final = ("kind", "name", "namespace")
_STATUSES: Final = ("True", "False", "Unknown")
_BUCKETS: Final = tuple(0.01 * (180_000.0 ** (step / 9)) for step in range(10))
"""Ten exponential buckets from 10 ms to 1,800 s (fluxcd/pkg/runtime/metrics)."""
_BOUNDS: Final = (*map(floatToGoString, _BUCKETS), "+Inf")


class ObjectSeries(Collector):
    """Keeps the series of the objects that exist."""

    def __init__(self) -> None:
        self._known: dict[Key, _Series] = {}

    def observe(self, key: Key, *, suspended: bool, ready: str, stalled: str) -> None:
        """Record the state of an object, from its spec and its conditions."""
        self._of(key).state = (suspended, ready, stalled)

    def finished(self, key: Key, *, seconds: float, failed: bool) -> None:
        """Count a reconciliation of an object."""
        series = self._of(key)
        series.seconds += seconds
        series.counts[bisect_left(_BUCKETS, seconds)] += 1
        series.errors += failed

    def forget(self, key: Key) -> None:
        """Remove the series of an object that is gone."""
        self._known.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """Return all series (``prometheus_client.registry.Collector``)."""
        rows = [(key, series.copy()) for key, series in list(self._known.items())]
        yield _durations(rows)
        yield _conditions(rows)
        yield _errors(rows)
        yield _suspended(rows)

    def _of(self, key: Key) -> "_Series":
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _Series()
        return found


class _Series:
    """The numbers of one object; ``state`` is None until the object was observed."""

    __slots__ = ("counts", "errors", "seconds", "state")

    def __init__(self) -> None:
        self.state: tuple[bool, str, str] | None = None
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0
        self.errors = 0

    def copy(self) -> "_Series":
        found = _Series()
        found.state, found.seconds, found.errors = self.state, self.seconds, self.errors
        found.counts = self.counts.copy()
        return found


_Rows = Sequence[tuple[Key, _Series]]


def _durations(rows: _Rows) -> Metric:
    found = HistogramMetricFamily(
        "gotk_reconcile_duration_seconds",
        "Duration in seconds of a reconciliation.",
        labels=_OBJECT,
    )
    for key, series in rows:
        if any(series.counts):
            buckets = list(zip(_BOUNDS, accumulate(series.counts), strict=True))
            found.add_metric(key, buckets, series.seconds)
    return found


def _conditions(rows: _Rows) -> Metric:
    found = GaugeMetricFamily(
        "gotk_reconcile_condition",
        "Current condition status of an object.",
        labels=(*_OBJECT, "type", "status"),
    )
    for key, type_, actual in _observed(rows):
        for status in _STATUSES:
            found.add_metric((*key, type_, status), float(status == actual))
    return found


def _observed(rows: _Rows) -> Iterator[tuple[Key, str, str]]:
    """Yield object, type and status of each condition."""
    for key, series in rows:
        if series.state is not None:
            _, ready, stalled = series.state
            yield key, "Ready", ready
            yield key, "Stalled", stalled


def _errors(rows: _Rows) -> Metric:
    found = CounterMetricFamily(
        "gotk_reconcile_error", "Reconciliations that failed.", labels=_OBJECT
    )
    for key, series in rows:
        if series.errors:
            found.add_metric(key, series.errors)
    return found


def _suspended(rows: _Rows) -> Metric:
    found = GaugeMetricFamily(
        "gotk_suspend_status", "Whether an object is suspended (1) or not (0).", labels=_OBJECT
    )
    for key, series in rows:
        if series.state is not None:
            found.add_metric(key, float(series.state[0]))
    return found
