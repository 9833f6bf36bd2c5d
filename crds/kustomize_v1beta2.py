"""``kustomize.toolkit.fluxcd.io/v1beta2``: Kustomization as Flux served it up to 2.7.

Fields without a text below them mean what they mean in ``crds.kustomize``.
"""

from typing import Literal

from msgspec import Struct, field

from crds import kustomize, kustomize_v1beta1, meta
from crds import kustomize_parts as parts


class SourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source to build from."""

    api_version: str = ""
    kind: Literal["OCIRepository", "GitRepository", "Bucket"]
    name: str
    namespace: str = ""


class KubeConfig(meta.ApiStruct, frozen=True, kw_only=True):
    """Tells how to reach another cluster."""

    secret_ref: meta.SecretKeyReference
    """Secret with a whole kubeconfig, by default under the key `value`, else `value.yaml`."""


class KustomizationSpec(kustomize_v1beta1.SameSpec, frozen=True, kw_only=True):
    """What to build, how to change it, and how to apply it."""

    common_metadata: parts.CommonMetadata | None = None
    interval: meta.Duration
    retry_interval: meta.Duration = ""
    timeout: meta.Duration = ""
    kube_config: KubeConfig | None = None
    source_ref: SourceReference
    """Source to build from; its files are the root of the build tree."""
    wait: bool = False
    components: list[str] = field(default_factory=list)


class KustomizationStatus(parts.AppliedStatus, frozen=True, kw_only=True):
    """What was applied last, and how that went."""

    inventory: kustomize.ResourceInventory | None = None


class Kustomization(Struct, frozen=True, kw_only=True, rename="camel"):
    """A directory of manifests, built with kustomize and kept applied."""

    api_version: str = f"{kustomize.GROUP}/v1beta2"
    kind: str = "Kustomization"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: KustomizationSpec
    status: KustomizationStatus = field(
        default_factory=lambda: KustomizationStatus(observed_generation=-1)
    )
