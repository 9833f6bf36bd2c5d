"""``source.toolkit.fluxcd.io/v1beta2``: HelmRepository and HelmChart as Flux served them up to 2.7.

HelmRepository is the same as in v1. A HelmChart may demand a signature beside any source here; one
that is not a registry has none to show, so the field is without effect there.
"""

from typing import ClassVar

from msgspec import Struct, field

from crds import meta, source_helm
from crds import source_parts as parts
from crds.rules import Rule
from crds.source import GROUP


class HelmRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A repository of Helm charts, whose index is offered as an artifact."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "HelmRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: source_helm.HelmRepositorySpec
    status: source_helm.HelmRepositoryStatus = field(
        default_factory=lambda: source_helm.HelmRepositoryStatus(observed_generation=-1)
    )


class HelmChartSpec(source_helm.HelmChartSpec, frozen=True, kw_only=True):
    """Which chart to take, and how to package it."""

    RULES: ClassVar[tuple[Rule, ...]] = ()

    access_from: parts.AccessFrom | None = None
    """Deprecated: accepted and without effect."""


class HelmChart(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart in one version, offered as an artifact."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "HelmChart"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmChartSpec
    status: source_helm.HelmChartStatus = field(
        default_factory=lambda: source_helm.HelmChartStatus(observed_generation=-1)
    )
