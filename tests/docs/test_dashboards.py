"""Flux's public dashboards find series in what Penstock serves and its ServiceMonitor scrapes."""

import logging
import re
from collections.abc import Iterator, Mapping

import msgspec
import prometheus_client
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from crds import KINDS
from tests.docs.dashboards import LOG_LEVELS, PANELS, SCRAPED, Panel
from tests.docs.pages import ROOT
from toolkit import telemetry
from toolkit.kube import verdict
from toolkit.kube.measure import Measure
from toolkit.kube.workqueue import WorkQueue
from toolkit.objects import GroupVersionKind, ObjectKey
from toolkit.telemetry import JsonFormatter

MONITORING = ROOT / "deploy/components/monitoring"
OBJECT = ObjectKey("apps", "web")
Labels = Mapping[str, str]


@pytest.fixture(scope="module")
def series() -> dict[str, list[Labels]]:
    """Serve what every controller counts, and return the series as Prometheus keeps them."""
    for kind in KINDS:
        measure = Measure(GroupVersionKind(*kind.gvk), workers=1)
        for failure in (None, ValueError("no")):
            measure.finished(OBJECT, _judged(failure), 1.0)
        telemetry.OBJECTS.observe(
            (kind.kind, OBJECT.name, OBJECT.namespace), suspended=False, ready="True", stalled=""
        )
        WorkQueue(kind.kind.lower(), min_delay=1, max_delay=1)
    telemetry.CLIENT_REQUESTS.labels("200", "api.example", "GET").inc()
    served = prometheus_client.generate_latest().decode()
    kept: dict[str, list[Labels]] = {}
    for family in text_string_to_metric_families(served):
        for sample in family.samples:
            kept.setdefault(sample.name, []).append(_scraped(sample.labels))
    return kept


def _judged(failure: Exception | None) -> verdict.Verdict:
    if failure is None:
        return verdict.Verdict(ready="True", reason="Succeeded", message="")
    return verdict.failed(failure, requeue_dependency=30, retry_interval=None, reconcile_id="1")


def _scraped(labels: Labels) -> Labels:
    """Return the labels of a series after the scrape, which does not honour those of the target."""
    own = {f"exported_{name}" if name in SCRAPED else name: text for name, text in labels.items()}
    return {**own, **dict.fromkeys(SCRAPED, "of the pod")}


def test_our_servicemonitor_scrapes_as_fluxs_podmonitor() -> None:
    documents = yaml.safe_load_all((MONITORING / "scraping.yaml").read_text())
    (monitor,) = (each for each in documents if each["kind"] == "ServiceMonitor")

    (endpoint,) = monitor["spec"]["endpoints"]
    assert not endpoint.get("honorLabels", False)
    added = {each["targetLabel"] for each in endpoint["relabelings"]}
    assert added <= SCRAPED


@pytest.mark.parametrize(
    "panel", [each for each in PANELS if not each.instead], ids=lambda each: each.metric
)
def test_panels_find_series(panel: Panel, series: Mapping[str, list[Labels]]) -> None:
    found = series[panel.metric]

    assert all(panel.labels <= labels.keys() for labels in found)
    for name, values in panel.values.items():
        assert set(values) <= {labels[name] for labels in found}


@pytest.mark.parametrize("panel", [each for each in PANELS if each.instead])
def test_panels_that_stay_empty_are_told_with_a_remedy(
    panel: Panel, series: Mapping[str, list[Labels]]
) -> None:
    page = (ROOT / "docs/monitoring.md").read_text()

    assert panel.metric not in series
    assert panel.labels <= series[panel.instead][0].keys()
    for title in panel.titles:
        (row,) = re.findall(rf"^\| {re.escape(title)} \|.*$", page, re.MULTILINE)
        assert f"`{panel.metric}`" in row
        assert panel.instead in row


def test_slow_releases_are_told_apart(series: Mapping[str, list[Labels]]) -> None:
    """A quantile never exceeds the last bucket; an action of Helm often takes longer than 10 s."""
    bounds = {labels["le"] for labels in series["controller_runtime_reconcile_time_seconds_bucket"]}

    assert {"0.005", "10.0", "60.0", "+Inf"} <= bounds


def test_our_own_alerts_and_dashboards_use_labels_after_the_scrape() -> None:
    """``namespace`` is that of the pod, ``exported_namespace`` that of the object."""
    for file in (MONITORING / "alerts.yaml", *(MONITORING / "dashboards").glob("*.json")):
        for grouped in re.findall(r"by \(([^)]*)\) \(?\w*\(?(?:gotk_\w+)", file.read_text()):
            assert "namespace" not in grouped.split(", "), file.name
        assert "$labels.namespace" not in file.read_text()


def test_levels_of_logs_are_those_that_the_dashboard_selects() -> None:
    levels = {msgspec.json.decode(line)["level"] for line in _lines()}

    assert levels == LOG_LEVELS


def _lines() -> Iterator[str]:
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        yield JsonFormatter().format(logging.LogRecord("a", level, "a", 1, "said", (), None))
