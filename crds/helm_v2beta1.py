"""``helm.toolkit.fluxcd.io/v2beta1``: HelmRelease as Flux served it up to 2.6.

Fields without a text below them mean what they mean in ``crds.helm``.
"""

from msgspec import Struct, field

from crds import helm, helm_actions, meta
from crds import helm_parts as parts
from crds.helm_status import SameStatus
from crds.helm_v2beta2 import KubeConfig


class ChartSpec(parts.ChartSpec, frozen=True, kw_only=True):
    """Which chart to take, and how to package it; copied to the HelmChart."""

    chart: str


class ChartTemplate(meta.ApiStruct, frozen=True, kw_only=True):
    """The HelmChart to create for this HelmRelease, as `<namespace>-<name>` beside the source."""

    metadata: parts.ChartTemplateMeta | None = None
    spec: ChartSpec


class HelmReleaseSpec(helm.SameSpec, frozen=True, kw_only=True):
    """Which chart to release, with which values, and how."""

    chart: ChartTemplate
    """HelmChart to create for this HelmRelease."""
    depends_on: list[meta.NamespacedObjectReference] = field(default_factory=list)
    kube_config: KubeConfig | None = None
    service_account_name: str = ""
    install: helm_actions.SameInstall | None = None
    upgrade: helm_actions.SameUpgrade | None = None
    test: helm_actions.SameTest | None = None
    rollback: helm_actions.SameRollback | None = None


class HelmRelease(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart, released with values and kept as desired."""

    api_version: str = f"{helm.GROUP}/v2beta1"
    kind: str = "HelmRelease"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmReleaseSpec
    status: SameStatus = field(default_factory=lambda: SameStatus(observed_generation=-1))
