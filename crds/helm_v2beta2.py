"""``helm.toolkit.fluxcd.io/v2beta2``: HelmRelease as Flux served it up to 2.7.

Fields without a text below them mean what they mean in ``crds.helm``.
"""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from crds import helm, helm_actions, meta
from crds import helm_parts as parts
from crds.helm_status import SameStatus
from crds.rules import Rule


class KubeConfig(meta.ApiStruct, frozen=True, kw_only=True):
    """Tells how to reach another cluster."""

    secret_ref: meta.SecretKeyReference
    """Secret with a whole kubeconfig, by default under the key `value`, else `value.yaml`."""


class HelmReleaseSpec(helm.SameSpec, frozen=True, kw_only=True):
    """Which chart to release, with which values, and how."""

    RULES: ClassVar[tuple[Rule, ...]] = helm.HelmReleaseSpec.RULES

    chart: parts.ChartTemplate | None = None
    chart_ref: parts.ChartReference | None = None
    depends_on: list[meta.NamespacedObjectReference] = field(default_factory=list)
    kube_config: KubeConfig | None = None
    service_account_name: Annotated[str, Meta(min_length=1, max_length=253)] = ""
    install: helm_actions.SameInstall | None = None
    upgrade: helm_actions.SameUpgrade | None = None
    test: helm_actions.Test | None = None
    rollback: helm_actions.SameRollback | None = None


class HelmRelease(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Helm chart, released with values and kept as desired."""

    api_version: str = f"{helm.GROUP}/v2beta2"
    kind: str = "HelmRelease"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: HelmReleaseSpec
    status: SameStatus = field(default_factory=lambda: SameStatus(observed_generation=-1))
