"""``policy.penstock.dev/v1alpha1``: ImageVerificationPolicy, which images must be signed, by whom.

It is cluster-scoped, because whom it binds may not write it, and the Secrets that it names are in
the namespace that Penstock is installed in. All policies that mean an image hold for it together.
"""

from typing import Annotated, ClassVar, Final, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta
from crds import policy_parts as parts
from crds.rules import Rule

GROUP: Final = parts.GROUP

ImagePattern: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        # A host has a dot, a port or a star; what has none is a path on Docker Hub.
        pattern=(
            r"^(\*\*|((localhost|[a-z0-9-]*[.*][a-z0-9.*-]*|\[[0-9a-f:]+\])(:[0-9]+)?"
            r"|[a-z0-9-]+:[0-9]+)/[a-z0-9*][a-z0-9._*/-]*)$"
        ),
    ),
]


class CosignVerifier(meta.ApiStruct, frozen=True, kw_only=True):
    """A signature by cosign: of a key, or of an identity that a Sigstore instance vouches for."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretRef) != (has(self.identities) && size(self.identities) > 0)",
            "one of secretRef and identities must be set",
        ),
        Rule(
            "!has(self.trustedRootSecretRef) || !has(self.secretRef)",
            "a trusted root vouches for identities, so it cannot be set together with secretRef",
            field=".trustedRootSecretRef",
        ),
    )

    secret_ref: meta.LocalObjectReference | None = None
    """Secret in the namespace that Penstock is installed in, whose `*.pub` are public keys. Any of
    them may have signed."""
    identities: Annotated[list[parts.RequiredIdentity], Meta(max_length=64)] = field(
        default_factory=list
    )
    """Identities that may have signed without a key."""
    trusted_root_secret_ref: meta.LocalObjectReference | None = None
    """Secret in the namespace that Penstock is installed in, whose `trusted_root.json` is the root
    of the Sigstore instance that vouches for identities. Defaults to the public one."""


class NotationVerifier(meta.ApiStruct, frozen=True, kw_only=True):
    """A signature by Notation, as a trust policy demands it."""

    secret_ref: meta.LocalObjectReference
    """Secret in the namespace that Penstock is installed in, with `trustpolicy.json` and
    certificates as `*.crt` or `*.pem`."""


class ImageVerifier(meta.ApiStruct, frozen=True, kw_only=True):
    """Who must have signed an image, in one of two ways."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.cosign) != has(self.notation)",
            "one of cosign and notation must be set",
        ),
    )

    name: Annotated[
        str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ]
    """Name that messages call it by."""
    cosign: CosignVerifier | None = None
    """A signature by cosign."""
    notation: NotationVerifier | None = None
    """A signature by Notation."""


class ImageRegistryAccess(meta.ApiStruct, frozen=True, kw_only=True):
    """How registries are reached, beside what the Pods bring themselves."""

    secret_ref: meta.LocalObjectReference | None = None
    """Secret in the namespace that Penstock is installed in, with a docker config.json. Its logins
    are used for images for which the pull Secrets of the Pod have none."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret in the namespace that Penstock is installed in, with `ca.crt`, the authority that the
    registry's certificate comes from, or `tls.crt` and `tls.key` to sign in with."""
    insecure: bool = False
    """Whether the registry is asked without TLS."""


class ImageVerificationPolicySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where it holds, for which images, and who must have signed them."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.required) || self.required <= size(self.verifiers)",
            "required is more than there are verifiers",
            field=".required",
        ),
        Rule(
            r"!self.images.exists(i, i.matches('^(index\\.)?docker\\.io(:443)?/[^/]*$') && "
            "!i.endsWith('/**'))",
            "images of Docker Hub have a namespace: write docker.io/library/<name> or docker.io/**",
            field=".images",
        ),
    )

    mode: parts.Mode = "Enforce"
    """`Enforce` refuses images that are not signed, `Warn` tells the user who applies them, `Audit`
    only writes it into the audit log."""
    namespace_selector: parts.LabelSelector | None = None
    """Namespaces that it holds for. Defaults to all but the one that Penstock is installed in. Use
    labels that tenants cannot write: `kubernetes.io/metadata.name`, or those that begin with
    `policy.penstock.dev/`."""
    images: Annotated[list[ImagePattern], Meta(min_length=1, max_length=256)]
    """Patterns for the whole `<registry>/<repository>` without tag and digest, e.g.
    `ghcr.io/acme/**`: `*` is any text without a slash, `**` any text. Images of Docker Hub are
    `docker.io/<namespace>/<name>`, official ones `docker.io/library/<name>`."""
    exclude: Annotated[list[ImagePattern], Meta(max_length=256)] = field(default_factory=list)
    """Patterns for images that it does not hold for, although `images` names them."""
    verifiers: Annotated[
        list[ImageVerifier],
        Meta(
            min_length=1,
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    """Who must have signed."""
    required: Annotated[int, Meta(ge=1)] | None = None
    """How many of the verifiers must find their signature. `1` is any of them. Defaults to all."""
    mutate_digest: bool = True
    """Whether a tag is replaced by the digest that was verified, as `<image>:<tag>@<digest>`, where
    the mode is `Enforce`. If not, only images that are written with a digest are admitted."""
    registry: ImageRegistryAccess | None = None
    """How the registry is reached. By default with TLS, the system's authorities and the pull
    Secrets of the Pod or of its ServiceAccount."""


class ImageVerificationPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Says which images Pods and workloads may use in some namespaces: those that are signed."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ImageVerificationPolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImageVerificationPolicySpec
