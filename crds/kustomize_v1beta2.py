"""``kustomize.toolkit.fluxcd.io/v1beta2``: Kustomization as Flux served it up to 2.7.

Fields without a text below them mean what they mean in ``crds.kustomize``.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

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


class KustomizationSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to build, how to change it, and how to apply it."""

    common_metadata: parts.CommonMetadata | None = None
    depends_on: list[meta.NamespacedObjectReference] = field(default_factory=list)
    decryption: kustomize_v1beta1.Decryption | None = None
    interval: meta.Duration
    retry_interval: meta.Duration = ""
    kube_config: KubeConfig | None = None
    path: str = ""
    post_build: kustomize_v1beta1.PostBuild | None = None
    prune: bool
    health_checks: list[meta.NamespacedObjectKindReference] = field(default_factory=list)
    patches: list[parts.Patch] = field(default_factory=list)
    patches_strategic_merge: list[meta.Json] = field(default_factory=list)
    patches_json6902: list[parts.Json6902Patch] = field(default_factory=list)
    images: list[parts.Image] = field(default_factory=list)
    service_account_name: str = ""
    source_ref: SourceReference
    """Source to build from; its files are the root of the build tree."""
    suspend: bool = False
    target_namespace: meta.Namespace = ""
    timeout: meta.Duration = ""
    validation: Literal["none", "client", "server"] | None = None
    force: Annotated[bool, Meta(extra_json_schema={"default": False})] = False
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
