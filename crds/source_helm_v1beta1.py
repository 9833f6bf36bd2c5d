"""``source.toolkit.fluxcd.io/v1beta1``: HelmRepository and HelmChart as Flux served them up to 2.6.

The API server converts a HelmChart by relabelling, because a call for each write would cost more
than the write (ADR 13). Therefore its interval and its artifact have the form of v1. Durations of
a HelmRepository have no pattern: any Go duration was taken. Fields without a text below them mean
what they mean in ``crds.source_helm``.
"""

from typing import Final, Literal

from msgspec import Struct, field

from crds import meta, source_helm
from crds import source_parts as parts
from crds.change import Change
from crds.source import GROUP
from crds.source_parts_v1beta1 import ARTIFACT, SourceStatus, durations


class HelmRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where the charts are, and with which credentials to ask for them."""

    url: str
    """Address of the repository, over HTTP or HTTPS."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with `username` and `password`, and `certFile`, `keyFile` and `caFile` for TLS."""
    pass_credentials: bool = False
    interval: str
    """How often to ask for a new index, e.g. `5m`."""
    timeout: str = "60s"
    """How long fetching the index may take."""
    suspend: bool = False
    access_from: parts.AccessFrom | None = None


class HelmRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A repository of Helm charts, whose index is offered as an artifact."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "HelmRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmRepositorySpec
    status: SourceStatus = field(default_factory=lambda: SourceStatus(observed_generation=-1))


class HelmChartSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which chart to take, and how to package it."""

    chart: str
    version: str = "*"
    source_ref: source_helm.ChartSourceReference
    interval: meta.Duration
    reconcile_strategy: Literal["ChartVersion", "Revision"] = "ChartVersion"
    values_files: list[str] = field(default_factory=list)
    values_file: str = ""
    """Deprecated: use valuesFiles. A values file that is merged before those."""
    suspend: bool = False
    access_from: parts.AccessFrom | None = None
    """Deprecated: accepted and without effect."""


class ChartArtifact(meta.Artifact, frozen=True, kw_only=True):
    """What was packaged last, and where to get it."""

    checksum: str = ""
    """Deprecated: accepted and without effect. Use digest."""


class HelmChartStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was packaged last, and how that went."""

    artifact: ChartArtifact | None = None


class HelmChart(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart in one version, offered as an artifact."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "HelmChart"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmChartSpec
    status: HelmChartStatus = field(default_factory=lambda: HelmChartStatus(observed_generation=-1))


REPOSITORY_CHANGES: Final[tuple[Change, ...]] = (*durations(), ARTIFACT)
