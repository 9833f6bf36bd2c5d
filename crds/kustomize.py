"""``kustomize.toolkit.fluxcd.io/v1``: what to build from a source and apply.

Fields, patterns, defaults and rules are those of Flux's kustomize-controller, with three additions:
``sourceRefs`` composes several sources into one build, ``dependsOn`` takes HelmReleases as well,
and the fields that v1 dropped from v1beta2 (``validation``, ``patchesStrategicMerge``,
``patchesJson6902``) are kept, so that manifests which still carry them apply and conversion loses
nothing. Parts of the spec are in ``crds.kustomize_parts``; older versions in
``crds.kustomize_v1beta1`` and ``…_v1beta2``.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import kustomize_parts as parts
from crds import meta, unwritten
from crds.rules import Rule

GROUP: Final = "kustomize.toolkit.fluxcd.io"

_TIMEOUT_MARGIN: Final = 30.0
"""Seconds by which an unset timeout stays below the interval, and its least value."""


class SourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names the source to build from."""

    SCHEMA: ClassVar[meta.Extensions] = meta.ATOMIC

    api_version: str = ""
    """API version of the source. When empty, the served version of the kind."""
    kind: Literal["OCIRepository", "GitRepository", "Bucket", "ExternalArtifact"]
    """Kind of the source."""
    name: str
    """Name of the source."""
    namespace: str = ""
    """Namespace of the source. Defaults to that of the Kustomization; another one must allow it."""


class MountedSourceReference(meta.ApiStruct, frozen=True, kw_only=True):
    """Names a source and the directory of the build tree that its files appear under."""

    api_version: str = ""
    """API version of the source. When empty, the served version of the kind."""
    kind: Literal["OCIRepository", "GitRepository", "Bucket", "ExternalArtifact"]
    """Kind of the source."""
    name: str
    """Name of the source."""
    namespace: str = ""
    """Namespace of the source. Defaults to that of the Kustomization; another one must allow it."""
    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$",
        ),
    ]
    """Directory to mount the source's files at, relative to the root of the build tree, e.g.
    `vendor/podinfo`. No part may begin with a dot, and no two entries may share a path. It hides
    files of sourceRef, or of an entry mounted above it, at the same place."""

    @property
    def source(self) -> SourceReference:
        """Return the reference without its mount point."""
        return SourceReference(
            api_version=self.api_version, kind=self.kind, name=self.name, namespace=self.namespace
        )


class KustomizationSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to build, how to change it, and how to apply it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.sourceRef) || (has(self.sourceRefs) && size(self.sourceRefs) > 0)",
            "sourceRef is required unless sourceRefs has at least one entry",
            field=".sourceRef",
            reason="FieldValueRequired",
        ),
    )

    interval: meta.Duration
    """How often to reconcile when nothing has changed, e.g. `10m`. New revisions, spec changes and
    drift are acted upon at once, not at the interval."""
    source_ref: SourceReference | None = None
    """Source to build from; its files are the root of the build tree. Required unless sourceRefs
    is given."""
    source_refs: Annotated[
        list[MountedSourceReference],
        Meta(
            max_length=32,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["path"],
            },
        ),
    ] = field(default_factory=list)
    """Further sources, each mounted at its path in the build tree. Together with sourceRef they add
    to its files; without it the tree holds the mounted directories alone. A new revision of any of
    them triggers a reconcile."""
    path: str = ""
    """Directory in the build tree that holds the kustomization.yaml, or plain manifests for which
    one is generated. Defaults to the root."""
    prune: bool
    """Delete objects that were applied before and are no longer in the build."""
    deletion_policy: Annotated[
        Literal["MirrorPrune", "Delete", "WaitForTermination", "Orphan"],
        Meta(extra_json_schema=meta.IMPLIED),
    ] = "MirrorPrune"
    """What becomes of the applied objects when this Kustomization is deleted: `MirrorPrune` deletes
    them if prune is true, `Delete` always, `WaitForTermination` always and waits until they are
    gone (at most timeout), `Orphan` leaves them in place."""
    retry_interval: meta.Duration = ""
    """How long to wait after a failure before the next attempt. Defaults to interval."""
    timeout: meta.Duration = ""
    """How long building, applying and health checking may take. Defaults to interval less 30
    seconds. Less than 30 seconds counts as 30 seconds."""
    suspend: bool = False
    """Stop reconciling. What is applied stays as it is; drift is not corrected."""
    wait: bool = False
    """Wait until every applied object is healthy before reporting Ready. healthChecks are then
    ignored."""
    force: Annotated[bool, Meta(extra_json_schema={"default": False})] = False
    """Delete and recreate an object when a change touches an immutable field. Otherwise such a
    change is an error."""
    depends_on: list[parts.DependencyReference] = field(default_factory=list)
    """Kustomizations and HelmReleases that must be ready before this one is reconciled."""
    target_namespace: meta.Namespace = ""
    """Namespace to put all namespaced objects in, whatever their manifests say."""
    name_prefix: Annotated[str, Meta(min_length=1, max_length=200)] = ""
    """Prefix for the names of all objects."""
    name_suffix: Annotated[str, Meta(min_length=1, max_length=200)] = ""
    """Suffix for the names of all objects."""
    components: list[str] = field(default_factory=list)
    """Directories of kustomize Components to add to the build, relative to path."""
    ignore_missing_components: bool = False
    """Skip entries of components that do not exist instead of failing."""
    patches: list[parts.Patch] = field(default_factory=list)
    """Strategic-merge or JSON 6902 patches, applied in order to the objects they select."""
    images: list[parts.Image] = field(default_factory=list)
    """Image names, tags and digests to replace."""
    common_metadata: parts.CommonMetadata | None = None
    """Labels and annotations to put on every object, over what its manifest says."""
    build_metadata: list[Literal["originAnnotations", "transformerAnnotations"]] = field(
        default_factory=list
    )
    """Annotations by which kustomize tells where an object came from and what changed it."""
    post_build: parts.PostBuild | None = None
    """Variables to substitute in the built objects."""
    decryption: parts.Decryption | None = None
    """How to decrypt encrypted manifests."""
    service_account_name: str = ""
    """ServiceAccount in this namespace to act as; its permissions are the limit. Defaults to the
    controller's --default-service-account, else to the controller's own account."""
    kube_config: meta.KubeConfigReference | None = None
    """Cluster to apply to. Defaults to the one that this object is in. serviceAccountName then
    names an account of that cluster."""
    health_checks: list[meta.NamespacedObjectKindReference] = field(default_factory=list)
    """Objects that must be healthy before Ready is reported; they need not be part of the build."""
    health_check_exprs: list[parts.CustomHealthCheck] = field(default_factory=list)
    """Expressions that tell health for kinds whose status follows no convention. They serve wait
    and healthChecks alike."""
    ignore: list[parts.IgnoreRule] = field(default_factory=list)
    """Fields to leave to other writers: neither applied nor corrected."""
    validation: Literal["none", "client", "server"] | None = None
    """Deprecated: every apply is validated by the API server, whole set first. Accepted so that
    older manifests keep working; `none` and `client` change nothing."""
    patches_strategic_merge: list[meta.Json] = field(default_factory=list)
    """Deprecated: use patches. Inline strategic-merge patches, applied before patches."""
    patches_json6902: list[parts.Json6902Patch] = field(default_factory=list)
    """Deprecated: use patches. JSON 6902 patches, applied after patches."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two reconciles when nothing changes."""
        return meta.interval_seconds(self.interval)

    @property
    def retry_seconds(self) -> float:
        """Return the time to wait after a failure: retryInterval, else the interval."""
        return meta.interval_seconds(self.retry_interval or self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one reconcile, by Flux's rule: never less than 30 seconds."""
        if self.timeout:
            return max(meta.timeout_seconds(self.timeout), _TIMEOUT_MARGIN)
        return max(self.interval_seconds - _TIMEOUT_MARGIN, _TIMEOUT_MARGIN)

    @property
    def mounts(self) -> Mapping[str, SourceReference]:
        """Return the sources by mount point; the root is the empty string and comes first."""
        root = {"": self.source_ref} if self.source_ref else {}
        return root | {ref.path: ref.source for ref in self.source_refs}


class ResourceRef(meta.ApiStruct, frozen=True, kw_only=True):
    """One applied object."""

    id: str
    """`<namespace>_<name>_<group>_<kind>`; the namespace of a cluster-scoped object is empty, and
    colons in RBAC names become double underscores."""
    v: str
    """Version of the API group that the object was applied with."""


class ResourceInventory(meta.ApiStruct, frozen=True, kw_only=True):
    """All objects that this Kustomization applied and still owns."""

    entries: list[ResourceRef]
    """The objects."""


class HistoryEntry(meta.ApiStruct, frozen=True, kw_only=True):
    """One outcome of reconciling one digest, and how often it was seen."""

    digest: str
    """Digest of what was reconciled."""
    first_reconciled: meta.Timestamp
    """When this outcome was first seen."""
    last_reconciled: meta.Timestamp
    """When this outcome was last seen."""
    last_reconciled_duration: str
    """How long the last reconcile took."""
    last_reconciled_status: str
    """Reason of the Ready condition that the last reconcile ended with."""
    total_reconciliations: meta.Count
    """How many reconciles ended this way."""
    metadata: dict[str, str] = field(default_factory=dict)
    """`revision`, and `originRevision` where the source tells one."""


class KustomizationStatus(parts.AppliedStatus, frozen=True, kw_only=True):
    """What was applied last, and how that went."""

    last_applied_origin_revision: str = ""
    """Upstream revision of lastAppliedRevision, where the source tells one."""
    inventory: ResourceInventory | None = None
    """Objects that are applied. What leaves it is pruned."""
    history: list[HistoryEntry] = field(default_factory=list)
    """The last five outcomes, newest first."""


class Kustomization(Struct, frozen=True, kw_only=True, rename="camel"):
    """A directory of manifests, built with kustomize and kept applied."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "Kustomization"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: KustomizationSpec = unwritten.spec(KustomizationSpec)
    status: KustomizationStatus = field(
        default_factory=lambda: KustomizationStatus(observed_generation=-1)
    )
