"""``policy.penstock.dev/v1alpha1``: ProvenancePolicy, what may be written without a repository.

It is cluster-scoped, because whom it binds may not write it. It holds only in namespaces with the
label ``policy.penstock.dev/provenance``: the API server asks about no others, so that anyone who
runs none of this never waits for it. All policies that select a namespace hold for it together;
within one, a write needs one origin that it satisfies whole.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta
from crds import policy_parts as parts

GROUP: Final = parts.GROUP
EVERY: Final = "*"
"""As API group or resource: every one."""

_Name: TypeAlias = Annotated[str, Meta(max_length=253)]
_Namespace: TypeAlias = Annotated[str, Meta(max_length=63)]
_Pattern: TypeAlias = Annotated[str, Meta(max_length=1024)]
_Group: TypeAlias = Annotated[str, Meta(max_length=253, pattern=r"^(\*|[a-z0-9.-]*)$")]
_Plural: TypeAlias = Annotated[str, Meta(max_length=63, pattern=r"^(\*|[a-z0-9]([a-z0-9-]*))$")]


class SelectedResources(meta.ApiStruct, frozen=True, kw_only=True):
    """Kinds of objects, by their names in URLs. Subresources belong to them."""

    api_groups: Annotated[list[_Group], Meta(min_length=1, max_length=32)]
    """API groups; empty is the core group, `*` every one."""
    resources: Annotated[list[_Plural], Meta(min_length=1, max_length=128)]
    """Plurals, e.g. `deployments`; `*` is every one of these groups."""


class OriginSource(meta.ApiStruct, frozen=True, kw_only=True):
    """Sources; fields that are empty match everything."""

    kind: (
        Literal["GitRepository", "OCIRepository", "Bucket", "HelmChart", "ExternalArtifact"] | None
    ) = None
    """Kind of the source. For a HelmRelease with `spec.chart`, it is `HelmChart`."""
    namespace: _Namespace = ""
    """Namespace of the source."""
    name: _Name = ""
    """Name of the source."""
    urls: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[a-z0-9*+]+://.+$")]],
        Meta(max_length=256),
    ] = field(default_factory=list)
    """Patterns for the whole URL, as in SourcePolicy: `*` is any text without a slash, `**` any
    text. The URL of a HelmChart is that of the source in its `spec.sourceRef`."""
    own_proxy: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = "Deny"
    """Whether `urls` also admit content that was fetched through a proxy of the source
    (`proxySecretRef`). Anyone who runs a proxy, and brings the certificate authority or the host
    keys along, can answer for any URL, so `Allow` is only for sources whose Secrets nobody may
    write who is bound by the policy."""


class OriginApplier(meta.ApiStruct, frozen=True, kw_only=True):
    """Appliers; fields that are empty match everything."""

    kind: Literal["Kustomization", "HelmRelease"] | None = None
    """Kind of the applier."""
    namespace: _Namespace = ""
    """Namespace of the applier."""
    name: _Name = ""
    """Name of the applier."""


class AllowedOrigin(meta.ApiStruct, frozen=True, kw_only=True):
    """Where objects may come from: everything that is set must hold."""

    source: OriginSource | None = None
    """Source that holds them. Every part of a build of several sources must match."""
    applier: OriginApplier | None = None
    """Object that applies them. Name it where people may write Kustomizations, because
    `spec.patches` changes what a source holds."""
    revision: _Pattern = ""
    """Regular expression (RE2) that must match the whole revision of every source, e.g.
    `v\\d+\\.\\d+\\.\\d+@.*` or `main@sha1:.*`."""
    verified_by: _Pattern = ""
    """Regular expression (RE2) that must match the whole sentence by which the artifact tells whose
    signature was verified, for every source and everything that it includes. `.+` means anybody
    whom the source trusts."""
    own_trusted_root: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "Deny"
    )
    """Whether `verifiedBy` also admits a signer that a Sigstore trust root of the source
    (`trustedRootSecretRef`) proves. Anyone who runs that Sigstore can sign as any identity, so
    `Allow` is only for sources whose Secrets nobody may write who is bound by the policy."""


class OperatorAccount(meta.ApiStruct, frozen=True, kw_only=True):
    """A service account that may write without a repository, for what an operator makes."""

    namespace: Annotated[str, Meta(min_length=1, max_length=63)]
    """Namespace of the service account. Anyone who may use it is not bound by the policy."""
    service_account_name: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the service account."""
    resources: Annotated[list[SelectedResources], Meta(max_length=32)] = field(default_factory=list)
    """Objects that it may write. Defaults to all."""


class ProvenancePolicySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where it holds, what for, and what it admits."""

    mode: parts.Mode = "Enforce"
    """`Enforce` refuses what is not admitted, `Warn` tells the user who sends it, `Audit` only
    writes it into the audit log."""
    namespace_selector: parts.LabelSelector | None = None
    """Namespaces that it holds for, among those with the label `policy.penstock.dev/provenance`.
    Defaults to all of them. The label may be removed, or one changed that is selected by, only by
    anyone who may `bypass` the policy."""
    resources: Annotated[list[SelectedResources], Meta(max_length=64)] = field(default_factory=list)
    """Objects that it is about. Defaults to what people write: workloads, ConfigMaps, Secrets,
    Services, Ingresses, network policies, accounts and roles, autoscalers, disruption budgets, and
    all namespaced kinds of Flux and Penstock, which decide what is applied."""
    origins: Annotated[list[AllowedOrigin], Meta(max_length=64)] = field(default_factory=list)
    """Where objects may come from: one of these. With none, whatever an applier of this cluster
    applies."""
    scale: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = "Deny"
    """Whether people may change the number of replicas (`kubectl scale`). Autoscalers always may;
    Kustomizations correct it unless they ignore the field."""
    operators: Annotated[list[OperatorAccount], Meta(max_length=64)] = field(default_factory=list)
    """Service accounts of operators that it does not bind. Kubernetes' own controllers need no
    entry."""
    hint: Annotated[str, Meta(max_length=512)] = ""
    """Text for users who are refused, e.g. which repository to change or whom to ask."""


class ProvenancePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Says where objects of some namespaces must come from.

    Anyone who may `bypass` it can open a namespace for a while, see docs/provenance.md.
    """

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ProvenancePolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ProvenancePolicySpec
