"""``source.toolkit.fluxcd.io/v1``: HelmRepository and HelmChart, where charts come from.

Fields, patterns, defaults and rules are those of Flux's source-controller. ``valuesFile`` of
v1beta2 is kept, so that HelmCharts in it lose nothing. Older versions live in
``crds.source_helm_v1beta1`` and ``crds.source_helm_v1beta2``.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds import source_parts as parts
from crds.rules import Rule
from crds.source import GROUP

_UNSET_SECONDS: Final = 60.0
"""Interval and timeout of a HelmRepository that names none."""


class HelmRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where the charts are, and with which credentials to ask for them."""

    url: Annotated[str, Meta(pattern=r"^(http|https|oci)://.*$")]
    """Address of the repository, over HTTP, HTTPS, or in a registry (`oci://`)."""
    type: Annotated[Literal["default", "oci"], Meta(extra_json_schema=meta.IMPLIED)] = "default"
    """`default` is a repository with an index.yaml, `oci` a registry, whose url must begin with
    `oci://`. A registry has no index: charts are looked up when a HelmChart asks for them."""
    interval: meta.Duration = ""
    """How often to ask for a new index, e.g. `5m`. Defaults to a minute. Not for `oci`."""
    timeout: meta.ShortDuration = ""
    """How long fetching the index, or a chart from a registry, may take. Defaults to `60s`."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with `username` and `password`, or for a registry one of type
    `kubernetes.io/dockerconfigjson`. Its `certFile`, `keyFile` and `caFile` are deprecated: use
    certSecretRef."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the server needs
    them. Wins over what secretRef says of TLS."""
    pass_credentials: bool = False
    """Send the credentials to other hosts as well, where the index names such for its charts.
    Anyone who can change the index then gets them."""
    provider: Literal["generic", "aws", "azure", "gcp"] = "generic"
    """Who vouches for the credentials of a registry: `generic` uses secretRef, the others take a
    token from the cloud's workload identity."""
    insecure: bool = False
    """Speak HTTP without TLS to a registry. Only for `oci`."""
    suspend: bool = False
    """Stop fetching. The last index stays available."""
    access_from: parts.AccessFrom | None = None
    """Accepted and without effect."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the repository."""
        return meta.interval_seconds(self.interval) if self.interval else _UNSET_SECONDS

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one fetch."""
        return meta.timeout_seconds(self.timeout) if self.timeout else _UNSET_SECONDS


class HelmRepositoryStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went; empty for a registry."""


class HelmRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """A repository of Helm charts, whose index is offered as an artifact."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "HelmRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmRepositorySpec = unwritten.spec(HelmRepositorySpec)
    status: HelmRepositoryStatus = field(
        default_factory=lambda: HelmRepositoryStatus(observed_generation=-1)
    )


class ChartSourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source that holds a chart, in the same namespace."""

    api_version: str = ""
    """API version of the source. When empty, the served version of the kind."""
    kind: Literal["HelmRepository", "GitRepository", "Bucket"]
    """Kind of the source."""
    name: str
    """Name of the source."""


class HelmChartSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which chart to take, and how to package it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
            "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'",
            field=".verify",
            reason="FieldValueForbidden",
        ),
    )

    chart: str
    """Name of the chart in a HelmRepository, or its directory (or tarball) in another source."""
    version: str = "*"
    """Version or range to take, e.g. `>=6.0.0 <7.0.0`. Only for charts of a HelmRepository."""
    source_ref: ChartSourceReference
    """Source that holds the chart."""
    interval: meta.Duration
    """How often to look for a new version. A new artifact of the source is acted upon at once."""
    reconcile_strategy: Literal["ChartVersion", "Revision"] = "ChartVersion"
    """What makes a new artifact: `ChartVersion` another version in Chart.yaml, `Revision` another
    revision of the source, which then becomes part of the version."""
    values_files: list[str] = field(default_factory=list)
    """Values files to merge into the chart's values.yaml, later ones winning: paths in the source,
    or in the chart where that comes from a HelmRepository. The chart's own values.yaml takes part
    only if it is listed."""
    values_file: str = ""
    """Deprecated: use valuesFiles. A values file that is merged before those."""
    ignore_missing_values_files: bool = False
    """Go on without values files that do not exist. Otherwise their absence is an error."""
    verify: parts.OCIVerification | None = None
    """Demand a signature of the chart. Only for charts of a HelmRepository of type `oci`; charts
    that it depends on are not verified."""
    suspend: bool = False
    """Stop fetching. The last artifact stays available."""

    @property
    def all_values_files(self) -> tuple[str, ...]:
        """Return valuesFile, where it is set, and then valuesFiles (Flux: GetValuesFiles)."""
        return (*([self.values_file] if self.values_file else []), *self.values_files)

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the source."""
        return meta.interval_seconds(self.interval)


class HelmChartStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was packaged last, and how that went."""

    observed_source_artifact_revision: str = ""
    """Revision of the source's artifact that the last artifact was made from."""
    observed_chart_name: str = ""
    """Name of the chart in the last artifact."""
    observed_values_files: list[str] = field(default_factory=list)
    """Values files that were merged into the last artifact."""


class HelmChart(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart in one version, offered as an artifact."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "HelmChart"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmChartSpec = unwritten.spec(HelmChartSpec)
    status: HelmChartStatus = field(default_factory=lambda: HelmChartStatus(observed_generation=-1))
