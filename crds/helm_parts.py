"""The structs that ``HelmReleaseSpec`` is made of: the chart, its values, drift, rendering.

They are the same in every version of the group unless that version's module says otherwise. What
the single Helm actions are told is in ``crds.helm_actions``.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from crds import kustomize_parts, meta

TARGET_PATH: Final = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$"
VALUES_KEY: Final = r"^[\-._a-zA-Z0-9]+$"

_Name = Annotated[str, Meta(min_length=1, max_length=253)]


class ChartSourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source that holds the chart."""

    api_version: str = ""
    """API version of the source. When empty, the served version of the kind."""
    kind: Literal["HelmRepository", "GitRepository", "Bucket"]
    """Kind of the source."""
    name: _Name
    """Name of the source."""
    namespace: meta.Namespace = ""
    """Namespace of the source, and of the HelmChart that is created. Defaults to that of the
    HelmRelease; another one must allow it."""


class ChartVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Which signatures to demand of a chart in a registry."""

    provider: Literal["cosign", "notation"] = "cosign"
    """What the chart was signed with."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with what is trusted, in the namespace of the source, as a HelmChart has it."""


class ChartSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which chart to take, and how to package it; copied to the HelmChart."""

    chart: Annotated[str, Meta(min_length=1, max_length=2048)]
    """Name of the chart in a HelmRepository, or its directory (or tarball) in another source."""
    version: str = "*"
    """Version or range to take, e.g. `>=6.0.0 <7.0.0`. Only for charts of a HelmRepository."""
    source_ref: ChartSourceReference
    """Source that holds the chart."""
    interval: meta.Duration = ""
    """How often to look for a new version. Defaults to the interval of the HelmRelease."""
    reconcile_strategy: Literal["ChartVersion", "Revision"] = "ChartVersion"
    """What makes a new artifact: `ChartVersion` another version in Chart.yaml, `Revision` another
    revision of the source, which then becomes part of the version."""
    values_files: list[str] = field(default_factory=list)
    """Values files to merge into the chart's values.yaml, later ones winning."""
    values_file: str = ""
    """Deprecated: use valuesFiles. A values file that is merged before those."""
    ignore_missing_values_files: bool = False
    """Go on without values files that do not exist. Otherwise their absence is an error."""
    verify: ChartVerification | None = None
    """Demand a signature of the chart. Only for charts of a HelmRepository of type `oci`; charts
    that it depends on are not verified."""


class ChartTemplateMeta(meta.ApiStruct, frozen=True, kw_only=True):
    """Metadata of the HelmChart."""

    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations to set."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels to set."""


class ChartTemplate(meta.ApiStruct, frozen=True, kw_only=True):
    """The HelmChart to create for this HelmRelease, as `<namespace>-<name>` beside the source."""

    metadata: ChartTemplateMeta | None = None
    """Labels and annotations of the HelmChart."""
    spec: ChartSpec
    """Spec of the HelmChart."""


class ChartReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names an object whose artifact is a chart."""

    api_version: str = ""
    """API version of the object. When empty, the served version of the kind."""
    kind: Literal["OCIRepository", "HelmChart", "ExternalArtifact"]
    """Kind of the object."""
    name: _Name
    """Name of the object."""
    namespace: meta.Namespace = ""
    """Namespace of the object. Defaults to that of the HelmRelease; another one must allow it."""


class DependencyReference(meta.ApiStruct, frozen=True, kw_only=True):
    """An object that must be ready first."""

    kind: Annotated[
        Literal["HelmRelease", "Kustomization"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "HelmRelease"
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object. Defaults to that of the HelmRelease."""
    ready_expr: str = ""
    """CEL expression over `self` and `dep` that tells whether the dependency is met, e.g.
    `dep.metadata.labels['app/version'] == self.metadata.labels['app/version']`. Replaces the
    built-in check for Ready at the current generation."""


class ValuesReference(meta.ApiStruct, frozen=True, kw_only=True):
    """A key of a ConfigMap or Secret that holds values."""

    kind: Literal["Secret", "ConfigMap"]
    """Kind of the object that holds the values."""
    name: _Name
    """Name of the object, in the namespace of the HelmRelease."""
    values_key: Annotated[
        str, Meta(max_length=253, pattern=VALUES_KEY, extra_json_schema=meta.IMPLIED)
    ] = "values.yaml"
    """Key that holds the values."""
    target_path: Annotated[str, Meta(max_length=250, pattern=TARGET_PATH)] = ""
    """Path to set to the content of the key, as `helm --set` has it, e.g. `image.tag` or
    `hosts[0].name`. A dot that belongs to a name is written `\\.`. Without it the content is a
    YAML document that is merged at the root."""
    literal: bool = False
    """Take the content as it is, as `helm --set-literal` does. Otherwise commas, brackets and
    backslashes have the meaning that `--set` gives them, and numbers and booleans become such. Only
    with targetPath."""
    optional: bool = False
    """Go on when the object or its key does not exist. Otherwise their absence is an error."""


class DriftIgnoreRule(meta.ApiStruct, frozen=True, kw_only=True):
    """Fields in which the cluster may differ from the release."""

    paths: list[str]
    """JSON pointers to the fields, e.g. `/spec/replicas`."""
    target: kustomize_parts.Selector | None = None
    """Objects that the rule holds for. Defaults to all."""


class DriftDetection(meta.ApiStruct, frozen=True, kw_only=True):
    """What to do when the cluster differs from the release."""

    mode: Annotated[
        Literal["enabled", "warn", "disabled"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "disabled"
    """`enabled` corrects differences, `warn` reports them, `disabled` does not look for them."""
    ignore: list[DriftIgnoreRule] = field(default_factory=list)
    """Fields in which differences do not count."""


class Kustomize(meta.ApiStruct, frozen=True, kw_only=True):
    """Changes that kustomize makes to the rendered objects."""

    patches: list[kustomize_parts.Patch] = field(default_factory=list)
    """Strategic-merge or JSON 6902 patches, applied in order to the objects they select."""
    images: list[kustomize_parts.Image] = field(default_factory=list)
    """Image names, tags and digests to replace."""
    patches_strategic_merge: list[meta.Json] = field(default_factory=list)
    """Deprecated: use patches. Inline strategic-merge patches, applied before patches."""
    patches_json6902: list[kustomize_parts.Json6902Patch] = field(default_factory=list)
    """Deprecated: use patches. JSON 6902 patches, applied after patches."""


class PostRenderer(meta.ApiStruct, frozen=True, kw_only=True):
    """One change of the rendered objects before they are applied."""

    kustomize: Kustomize | None = None
    """Changes by kustomize."""


class WaitStrategy(meta.ApiStruct, frozen=True, kw_only=True):
    """How the health of applied objects is told."""

    name: Literal["poller", "legacy"]
    """`poller` tells it by their status conditions and healthCheckExprs, `legacy` by the rules of
    Helm 3, which knows the built-in kinds alone."""
