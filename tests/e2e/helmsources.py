"""Manifests of HelmRepositories and HelmCharts."""

from typing import Any

from tests.e2e.conftest import Space
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
