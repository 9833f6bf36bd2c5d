"""The structs that several kinds of ``source.toolkit.fluxcd.io`` are made of.

They are the same in every version of the group unless that version's module says otherwise.
"""

from typing import Literal

from msgspec import field

from crds import meta


class AccessFromSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Selects namespaces."""

    match_labels: dict[str, str] = field(default_factory=dict)
    """Labels that a namespace must have. With none, every namespace is selected."""


class AccessFrom(meta.ApiStruct, frozen=True, kw_only=True):
    """Namespaces that may refer to this object; declared by Flux and never enforced."""

    namespace_selectors: list[AccessFromSelector]
    """Selectors, of which one must match."""


class IdentityMatch(meta.ApiStruct, frozen=True, kw_only=True):
    """Who may have signed without a key: both expressions must match one certificate."""

    issuer: str
    """Regular expression (RE2) for the issuer of the identity token, e.g.
    `^https://token\\.actions\\.githubusercontent\\.com$`."""
    subject: str
    """Regular expression (RE2) for the identity, e.g. `^https://github\\.com/org/repo/.*$`."""


class OCIVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Which signatures to demand of an artifact in a registry, and whose."""

    provider: Literal["cosign", "notation"] = "cosign"
    """What the artifact was signed with."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with what is trusted. For `cosign` public keys under names ending in `.pub`; without
    it signatures by identity are checked. For `notation` a `trustpolicy.json` and certificates
    under names ending in `.crt` or `.pem`."""
    match_oidc_identity: list[IdentityMatch] = field(name="matchOIDCIdentity", default_factory=list)
    """Identities of which one must have signed, where `cosign` is used without keys. At least one
    is needed then."""
    trusted_root_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the trust root of an own Sigstore installation under the key
    `trusted_root.json`. Defaults to the public one."""


class SourceStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled, ArtifactInStorage, SourceVerified,
    ArtifactOutdated, FetchFailed, BuildFailed, StorageOperationFailed, IncludeUnavailable."""
    artifact: meta.Artifact | None = None
    """Last artifact that was stored. Stays while later fetches fail."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class LinkedSourceStatus(SourceStatus, frozen=True, kw_only=True):
    """What was fetched last, how that went, and a link to it."""

    url: str = ""
    """Address of the newest artifact, best effort: artifact.url is exact."""
