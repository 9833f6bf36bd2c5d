"""``kustomize.toolkit.fluxcd.io/v1beta1``: Kustomization as Flux served it up to 2.6.

The API server converts it by relabelling, because a call for each write would cost more than the
write (ADR 13). Therefore durations have the form of v1, although Flux took any Go duration. Fields
without a text below them mean what they mean in ``crds.kustomize``.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from crds import kustomize, meta
from crds import kustomize_parts as parts


class SourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source to build from."""

    api_version: str = ""
    kind: Literal["GitRepository", "Bucket"]
    name: str
    namespace: str = ""


class KubeConfig(meta.ApiStruct, frozen=True, kw_only=True):
    """Tells how to reach another cluster."""

    secret_ref: meta.LocalObjectReference
    """Secret with a whole kubeconfig under the key `value`, else `value.yaml`."""


class Decryption(meta.ApiStruct, frozen=True, kw_only=True):
    """How to decrypt encrypted manifests."""

    provider: Literal["sops"]
    """Format of the encrypted documents."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with the private keys: `*.agekey` for age, `*.asc` for OpenPGP."""


class PostBuild(meta.ApiStruct, frozen=True, kw_only=True):
    """Variables for `${name}` expressions in the built objects."""

    substitute: dict[str, str] = field(default_factory=dict)
    """Variables by name. They win over substituteFrom."""
    substitute_from: list[parts.SubstituteReference] = field(default_factory=list)
    """ConfigMaps and Secrets to take variables from; later ones win."""


class SameSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What v1beta1 and v1beta2 have in common."""

    depends_on: list[meta.NamespacedObjectReference] = field(default_factory=list)
    decryption: Decryption | None = None
    path: str = ""
    post_build: PostBuild | None = None
    prune: bool
    health_checks: list[meta.NamespacedObjectKindReference] = field(default_factory=list)
    patches: list[parts.Patch] = field(default_factory=list)
    patches_strategic_merge: list[meta.Json] = field(default_factory=list)
    patches_json6902: list[parts.Json6902Patch] = field(default_factory=list)
    images: list[parts.Image] = field(default_factory=list)
    service_account_name: str = ""
    suspend: bool = False
    target_namespace: meta.Namespace = ""
    validation: Literal["none", "client", "server"] | None = None
    force: Annotated[bool, Meta(extra_json_schema={"default": False})] = False


class KustomizationSpec(SameSpec, frozen=True, kw_only=True):
    """What to build, how to change it, and how to apply it."""

    interval: meta.Duration
    retry_interval: meta.Duration = ""
    timeout: meta.Duration = ""
    kube_config: KubeConfig | None = None
    source_ref: SourceReference
    """Source to build from; its files are the root of the build tree."""


class SnapshotEntry(meta.ApiStruct, frozen=True, kw_only=True):
    """Kinds that were applied in one namespace."""

    namespace: str
    """Namespace of the objects; empty for cluster-scoped ones."""
    kinds: dict[str, str]
    """Kinds by their group, version and kind in one string."""


class Snapshot(meta.ApiStruct, frozen=True, kw_only=True):
    """What was applied, as kinds per namespace."""

    checksum: str
    """SHA-1 of the manifests that were applied."""
    entries: list[SnapshotEntry]
    """Kinds per namespace."""


class KustomizationStatus(parts.AppliedStatus, frozen=True, kw_only=True):
    """What was applied last, and how that went."""

    snapshot: Snapshot | None = None
    """Deprecated: kinds that were applied, from which stale objects were found by their labels."""


class Kustomization(Struct, frozen=True, kw_only=True, rename="camel"):
    """A directory of manifests, built with kustomize and kept applied."""

    api_version: str = f"{kustomize.GROUP}/v1beta1"
    kind: str = "Kustomization"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: KustomizationSpec
    status: KustomizationStatus = field(
        default_factory=lambda: KustomizationStatus(observed_generation=-1)
    )
