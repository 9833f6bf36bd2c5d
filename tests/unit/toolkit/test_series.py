"""The series of single objects that dashboards know."""

import itertools

import prometheus_client
import pytest

from toolkit import telemetry
from toolkit.series import ObjectSeries

KEY = ("Kustomization", "apps", "team")
LABELS = {"kind": "Kustomization", "name": "apps", "namespace": "team"}


@pytest.fixture
def series() -> ObjectSeries:
    return ObjectSeries()


def samples(series: ObjectSeries) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the value of every series, by name and labels."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(series)
    found = itertools.chain.from_iterable(metric.samples for metric in registry.collect())
    return {(each.name, frozenset(each.labels.items())): each.value for each in found}


def value(series: ObjectSeries, name: str, **more: str) -> float | None:
    return samples(series).get((name, frozenset((LABELS | more).items())))


def test_durations_have_flux_s_buckets(series: ObjectSeries) -> None:
    series.finished(KEY, seconds=1, failed=False)

    bounds = [
        float(dict(labels)["le"])
        for name, labels in samples(series)
        if name == "gotk_reconcile_duration_seconds_bucket"
    ]

    assert len(bounds) == 11
    assert bounds[0] == pytest.approx(0.01)
    assert bounds[9] == pytest.approx(1800)
    assert bounds[10] == float("inf")


def test_buckets_are_cumulative_and_include_their_bound(series: ObjectSeries) -> None:
    for seconds in (0.01, 0.011, 5000):
        series.finished(KEY, seconds=seconds, failed=False)

    buckets = [
        count
        for (name, _), count in samples(series).items()
        if name == "gotk_reconcile_duration_seconds_bucket"
    ]
    assert buckets == [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]
    assert value(series, "gotk_reconcile_duration_seconds_count") == 3
    assert value(series, "gotk_reconcile_duration_seconds_sum") == pytest.approx(5000.021)


def test_conditions_are_one_series_for_each_status(series: ObjectSeries) -> None:
    series.observe(KEY, suspended=True, ready="False", stalled="True")

    found = {
        (type_, status): value(series, "gotk_reconcile_condition", type=type_, status=status)
        for type_ in ("Ready", "Stalled")
        for status in ("True", "False", "Unknown")
    }
    assert found == {
        ("Ready", "True"): 0,
        ("Ready", "False"): 1,
        ("Ready", "Unknown"): 0,
        ("Stalled", "True"): 1,
        ("Stalled", "False"): 0,
        ("Stalled", "Unknown"): 0,
    }
    assert value(series, "gotk_suspend_status") == 1


def test_only_failures_count_as_errors(series: ObjectSeries) -> None:
    series.finished(KEY, seconds=1, failed=False)
    assert value(series, "gotk_reconcile_error_total") is None

    series.finished(KEY, seconds=1, failed=True)

    assert value(series, "gotk_reconcile_error_total") == 1


def test_the_series_of_a_gone_object_are_removed_and_those_of_others_stay(
    series: ObjectSeries,
) -> None:
    other = ("Kustomization", "apps", "other")
    for key in (KEY, other):
        series.observe(key, suspended=False, ready="True", stalled="False")
        series.finished(key, seconds=1, failed=True)

    series.forget(KEY)

    assert {dict(labels)["namespace"] for _, labels in samples(series)} == {"other"}


def test_the_process_serves_them() -> None:
    telemetry.OBJECTS.observe(KEY, suspended=False, ready="True", stalled="False")
    try:
        page = prometheus_client.generate_latest().decode()
    finally:
        telemetry.OBJECTS.forget(KEY)

    line = 'gotk_suspend_status{kind="Kustomization",name="apps",namespace="team"} 0.0'
    assert line in page.splitlines()
