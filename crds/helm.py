"""``helm.toolkit.fluxcd.io/v2``: which chart to release, with which values, and how.

Fields, patterns, defaults and rules are those of Flux's helm-controller, with two additions:
``dependsOn`` takes Kustomizations as well, and ``decryption`` names keys. The fields that v2
dropped from v2beta2 (``valuesFile``, ``patchesStrategicMerge``, ``patchesJson6902``,
``lastAppliedRevision``) are kept. Parts are in ``crds.helm_parts``, ``crds.helm_actions`` and
``crds.helm_status``; older versions in ``crds.helm_v2beta1`` and ``crds.helm_v2beta2``.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Struct, field

from crds import helm_actions, kustomize_parts, meta, unwritten
from crds import helm_parts as parts
from crds.helm_status import HelmReleaseStatus
from crds.rules import Rule

GROUP: Final = "helm.toolkit.fluxcd.io"
MAX_HISTORY: Final = 5
"""Records of a release that Helm keeps where maxHistory is not set."""

OWNER_NAME: Final = f"{GROUP}/name"
OWNER_NAMESPACE: Final = f"{GROUP}/namespace"
"""Labels of a HelmChart that a HelmRelease has made: they name the HelmRelease, as in Flux."""

_TIMEOUT: Final = "5m"


def chart_name(*, namespace: str, name: str, told: str = "") -> str:
    """Return the name of the HelmChart that a HelmRelease makes, as in Flux.

    If that name was taken, ``status.helmChart`` (``told``) has ``other_chart_name``.
    """
    other = other_chart_name(namespace=namespace, name=name)
    return other if told.partition("/")[2] == other else f"{namespace}-{name}"


def chart_names(*, namespace: str, name: str) -> tuple[str, str]:
    """Return both names that the HelmChart of a HelmRelease can have, Flux's first."""
    return (
        chart_name(namespace=namespace, name=name),
        other_chart_name(namespace=namespace, name=name),
    )


def other_chart_name(*, namespace: str, name: str) -> str:
    """Return the name of the HelmChart where another owner has the HelmChart with Flux's name.

    The HelmReleases ``a/b-c`` and ``a-b/c`` have the same Flux name. This one is unique: a
    namespace has no dots. Nor is it Flux's name for any HelmRelease, because these begin with a
    namespace and a hyphen. So nobody can take it by the name of a HelmRelease.
    """
    return f"helmrelease.{namespace}.{name}"


class SameSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What every version has in common."""

    interval: meta.Duration
    """How often to reconcile when nothing has changed, e.g. `10m`. New charts, values and spec
    changes are acted upon at once, not at the interval."""
    timeout: meta.Duration = ""
    """How long a Helm action, and each hook of it, may take. Defaults to 5m."""
    suspend: bool = False
    """Stop reconciling. The release stays as it is; drift is not corrected."""
    release_name: Annotated[str, Meta(min_length=1, max_length=53)] = ""
    """Name of the release. Defaults to the name of the HelmRelease, with `<targetNamespace>-`
    before it where that is set; more than 53 characters are shortened with a hash."""
    target_namespace: meta.Namespace = ""
    """Namespace to deploy to. Defaults to that of the HelmRelease."""
    storage_namespace: meta.Namespace = ""
    """Namespace for Helm's records of the release. Defaults to that of the HelmRelease."""
    max_history: int | None = None
    """Records of the release that Helm keeps. Defaults to 5; 0 stands for no limit."""
    persistent_client: bool | None = None
    """Accepted and without effect: discovery is always up to date."""
    drift_detection: parts.DriftDetection | None = None
    """What to do when the cluster differs from the release."""
    uninstall: helm_actions.Uninstall | None = None
    """How to uninstall."""
    values_from: list[parts.ValuesReference] = field(default_factory=list)
    """ConfigMaps and Secrets to take values from, later ones winning. Give such an object the label
    reconcile.fluxcd.io/watch=Enabled to have a change acted upon at once."""
    values: meta.Json = UNSET
    """Values, merged last."""
    post_renderers: list[parts.PostRenderer] = field(default_factory=list)
    """Changes of the rendered objects before they are applied, in order."""


class HelmReleaseSpec(SameSpec, frozen=True, kw_only=True):
    """Which chart to release, with which values, and how."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.chart) != has(self.chartRef)", "either chart or chartRef must be set"),
    )

    chart: parts.ChartTemplate | None = None
    """HelmChart to create for this HelmRelease. Either this or chartRef."""
    chart_ref: parts.ChartReference | None = None
    """Object whose artifact is the chart. Either this or chart."""
    depends_on: list[parts.DependencyReference] = field(default_factory=list)
    """HelmReleases and Kustomizations that must be ready before this one is reconciled."""
    kube_config: meta.KubeConfigReference | None = None
    """Cluster to release to. Defaults to the one that this object is in. serviceAccountName then
    names an account of that cluster."""
    service_account_name: Annotated[str, Meta(min_length=1, max_length=253)] = ""
    """ServiceAccount in this namespace to act as; its permissions are the limit. Defaults to the
    controller's --default-service-account, else to the controller's own account."""
    decryption: kustomize_parts.Decryption | None = None
    """Keys for encrypted Secrets that the chart renders. They are decrypted as they enter this
    cluster; Helm's record of the release keeps them encrypted. Flux does not have this field."""
    install: helm_actions.Install | None = None
    """How to install."""
    upgrade: helm_actions.Upgrade | None = None
    """How to upgrade."""
    test: helm_actions.Test | None = None
    """How to test."""
    rollback: helm_actions.Rollback | None = None
    """How to roll back."""
    common_metadata: kustomize_parts.CommonMetadata | None = None
    """Labels and annotations to put on every object, over what the chart says."""
    post_render_strategy: Annotated[
        Literal["nohooks", "combined", "separate"], Meta(extra_json_schema=meta.IMPLIED)
    ] = "combined"
    """What postRenderers and commonMetadata see: `nohooks` the objects without hooks, `combined`
    both in one build, `separate` each in a build of its own."""
    wait_strategy: parts.WaitStrategy | None = None
    """How the health of applied objects is told. Defaults to `poller`."""
    health_check_exprs: list[kustomize_parts.CustomHealthCheck] = field(default_factory=list)
    """Expressions that tell health for kinds whose status follows no convention."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two reconciles when nothing changes."""
        return meta.interval_seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of an action that names none of its own."""
        return meta.timeout_seconds(self.timeout or _TIMEOUT)

    @property
    def history_limit(self) -> int:
        """Return how many records Helm keeps; 0 stands for no limit."""
        return MAX_HISTORY if self.max_history is None else self.max_history


class HelmRelease(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart, released with values and kept as desired."""

    api_version: str = f"{GROUP}/v2"
    kind: str = "HelmRelease"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmReleaseSpec = unwritten.spec(HelmReleaseSpec)
    status: HelmReleaseStatus = field(
        default_factory=lambda: HelmReleaseStatus(observed_generation=-1)
    )
