"""Manifests of HelmRepositories and HelmCharts, and charts in a registry."""

from typing import Any

from tests.e2e.conftest import Space
from tests.fakes.charts import chart as chart_files
from tests.fakes.charts import package
from tests.fakes.registry import HELM_CONFIG, HELM_CONTENT, FakeRegistry
from toolkit.objects import GroupVersionKind, Json

HELM_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmRepository")
HELM_CHART = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")


def repository(space: Space, url: str, name: str = "charts", **spec: Any) -> Json:
    """Return a HelmRepository that looks rarely unless told to."""
    return {
        "apiVersion": HELM_REPOSITORY.api_version,
        "kind": "HelmRepository",
        "metadata": {"name": name, "namespace": space.namespace},
        "spec": {"interval": "1h", "url": url, **spec},
    }


def helm_chart(
    space: Space,
    name: str = "app",
    *,
    chart: str = "podinfo",
    source: str = "HelmRepository/charts",
    **spec: Any,
) -> Json:
    """Return a HelmChart that looks rarely unless told to."""
    kind, _, named = source.partition("/")
    reference = {"kind": kind, "name": named}
    return {
        "apiVersion": HELM_CHART.api_version,
        "kind": "HelmChart",
        "metadata": {"name": name, "namespace": space.namespace},
        "spec": {"interval": "1h", "chart": chart, "sourceRef": reference, **spec},
    }


def push(registry: FakeRegistry, version: str) -> str:
    """Push a chart, and return its digest."""
    data = package(chart_files(version=version))
    descriptor = registry.push(
        "charts/podinfo", version, [data], HELM_CONTENT, config_type=HELM_CONFIG
    )
    return str(descriptor["digest"])
