"""``policy.penstock.dev/v1alpha1``: SourcePolicy, which sources may exist and who must sign them.

It is cluster-scoped, because whom it binds may not write it. All policies that select a namespace
hold for it together; within one, a source needs one rule that it satisfies.
"""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta
from crds import policy_parts as parts
from crds.rules import Rule

GROUP: Final = parts.GROUP

SourceKind: TypeAlias = Literal[
    "GitRepository", "OCIRepository", "Bucket", "HelmRepository", "HelmChart", "ExternalArtifact"
]
_Fingerprint: TypeAlias = Annotated[
    str, Meta(pattern=r"^([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}|SHA256:[0-9A-Za-z+/]{43,64}=?)$")
]


class RequiredGitSignature(meta.ApiStruct, frozen=True, kw_only=True):
    """A signature on commits or tags."""

    mode: Annotated[Literal["HEAD", "Tag", "TagAndHEAD"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "HEAD"
    )
    """What must be signed at least: the commit, the annotated tag, or both."""
    keys: Annotated[list[_Fingerprint], Meta(max_length=256)] = field(default_factory=list)
    """Fingerprints of the keys that may sign: `SHA256:…` of an SSH key, 40 or 64 hexadecimal digits
    of an OpenPGP key. With none, any key that the source trusts."""


class RequiredCosignSignature(meta.ApiStruct, frozen=True, kw_only=True):
    """A signature by cosign, of one of these keys or identities."""

    keys: Annotated[list[_Fingerprint], Meta(max_length=256)] = field(default_factory=list)
    """Fingerprints of the public keys that may sign: `SHA256:` and the digest of the key (DER) in
    hexadecimal."""
    identities: Annotated[list[parts.RequiredIdentity], Meta(max_length=64)] = field(
        default_factory=list
    )
    """Identities that may sign without a key. They hold for the public Sigstore."""
    own_trusted_root: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "Deny"
    )
    """Whether a source may bring a Sigstore trust root of its own. Anyone who runs that Sigstore
    can sign as any identity, so `Allow` is only for namespaces whose Secrets tenants cannot
    write."""


class RequiredNotationSignature(meta.ApiStruct, frozen=True, kw_only=True):
    """A signature by Notation, of one of these identities or certificates."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.identities) || size(self.identities) == 0 || "
            "(has(self.certificates) && size(self.certificates) > 0) || "
            "(has(self.ownAuthorities) && self.ownAuthorities == 'Allow')",
            "identities prove nothing where a source brings its own authorities: list "
            "certificates, too, or set ownAuthorities to Allow",
            field=".identities",
        ),
    )

    identities: Annotated[list[Annotated[str, Meta(max_length=1024)]], Meta(max_length=64)] = field(
        default_factory=list
    )
    """Attributes that the signer's certificate must have, e.g. `C=US, O=Acme, CN=release`. List
    `certificates`, too, or set `ownAuthorities`."""
    certificates: Annotated[list[_Fingerprint], Meta(max_length=256)] = field(default_factory=list)
    """Fingerprints of the certificates that may sign: `SHA256:` and the digest of the certificate
    in hexadecimal."""
    own_authorities: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "Deny"
    )
    """Whether `identities` are enough without `certificates`. The authorities are those in the
    Secret of the source, and an authority can issue certificates with any attributes. So `Allow` is
    only for namespaces whose Secrets tenants cannot write."""


class RequiredVerification(meta.ApiStruct, frozen=True, kw_only=True):
    """Which signature a source must demand. Of those that are set, one."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.git) || has(self.cosign) || has(self.notation)",
            "one of git, cosign or notation must be set",
        ),
    )

    git: RequiredGitSignature | None = None
    """For GitRepository."""
    cosign: RequiredCosignSignature | None = None
    """For OCIRepository and HelmChart. With neither keys nor identities, any key that the source
    trusts, but not any identity."""
    notation: RequiredNotationSignature | None = None
    """For OCIRepository and HelmChart. With nothing set, any signer that the source trusts."""


class AllowedSource(meta.ApiStruct, frozen=True, kw_only=True):
    """Sources that are allowed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.kind in ['HelmChart', 'ExternalArtifact']) != "
            "(has(self.urls) && size(self.urls) > 0)",
            "urls must be given for kinds that have a URL, and only for them",
            field=".urls",
        ),
        Rule(
            "!has(self.verify) || (self.kind == 'GitRepository' ? has(self.verify.git) : "
            "self.kind in ['OCIRepository', 'HelmChart'] && "
            "(has(self.verify.cosign) || has(self.verify.notation)))",
            "verify must be one that the kind has: git for GitRepository, cosign or notation for "
            "OCIRepository and HelmChart",
            field=".verify",
        ),
    )

    kind: SourceKind
    """Kind of the sources."""
    urls: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[a-z0-9*+]+://.+$")]],
        Meta(max_length=256),
    ] = field(default_factory=list)
    """Patterns for the whole URL: `*` is any text without a slash, `**` any text. User names (but
    those of SSH other than `git`), the scheme's own port and a slash at the end are left out
    before. For a Bucket the URL is
    `https://<endpoint>/<bucketName>`, `http://` where it is insecure; an insecure registry has the
    scheme `oci+http`."""
    verify: RequiredVerification | None = None
    """Signature that such a source must demand, and who must have made it."""
    own_proxy: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = "Deny"
    """Whether a source may name a proxy (`proxySecretRef`). Anyone who runs a proxy, and brings the
    certificate authority along, can answer for any URL."""


class SourcePolicySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where it holds, and what it allows."""

    mode: parts.Mode = "Enforce"
    """`Enforce` refuses what is not allowed, `Warn` tells the user who applies it, `Audit` only
    writes it into the audit log."""
    namespace_selector: parts.LabelSelector | None = None
    """Namespaces that it holds for. Defaults to all but the one that Penstock is installed in. Use
    labels that tenants cannot write: `kubernetes.io/metadata.name`, or those that begin with
    `policy.penstock.dev/`."""
    other_kinds: Annotated[Literal["Deny", "Allow"], Meta(extra_json_schema=meta.IMPLIED)] = "Deny"
    """What becomes of sources of kinds that no entry of `sources` names."""
    sources: Annotated[list[AllowedSource], Meta(min_length=1, max_length=128)]
    """Sources that are allowed: each must satisfy one entry of its kind."""


class SourcePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Says which sources may exist in some namespaces, and by whom they must be signed."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "SourcePolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: SourcePolicySpec
