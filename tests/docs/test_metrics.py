"""``docs/monitoring.md`` tells every metric, and no page tells one that is not served."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import PAGES, ROOT

MONITORING = [
    ROOT / "deploy/components/monitoring/alerts.yaml",
    *(ROOT / "deploy/components/monitoring/dashboards").glob("*.json"),
]
PACKAGES = ("toolkit", "controllers", "webhooks", "apiserver", "certs")
TYPES = {"Counter", "Gauge", "Histogram"}
ELSEWHERE = {"gotk_resource_info"}
"""What kube-state-metrics serves, for a dashboard of Flux."""
_NAME = re.compile(
    r"\b(?:penstock|gotk|controller_runtime|workqueue|rest_client|leader_election)_[a-z_]+\b"
)


def served() -> Iterator[str]:
    """Return the names under which our metrics are served: counters end in ``_total``."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            for node in ast.walk(ast.parse(text)) if "prometheus_client" in text else ():
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr=called) | ast.Name(id=called),
                        args=[ast.Constant(value=str(name)), *_],
                    ) if (kind := called.removesuffix("MetricFamily")) in TYPES:
                        yield f"{name.removesuffix('_total')}_total" if kind == "Counter" else name


def told(page: Path) -> set[str]:
    return set(_NAME.findall(page.read_text()))


def test_every_metric_is_told() -> None:
    page = ROOT / "docs" / "monitoring.md"
    alike = tuple(re.findall(r"`([a-z_]+_)\*`", page.read_text()))

    assert alike == ("workqueue_",)
    assert {name for name in served() if not name.startswith(alike)} <= told(page)


def test_every_metric_that_is_told_is_served() -> None:
    names = set(served()) | ELSEWHERE

    assert names > ELSEWHERE
    for file in MONITORING:
        asked = {re.sub("_(bucket|count|sum)$", "", name) for name in told(file)}
        assert asked, file.name
        assert asked <= names, file.name
    for page in PAGES:
        assert {name for name in told(page) if not name.endswith("_")} <= names, page.name
