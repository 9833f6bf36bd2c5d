"""``image.toolkit.fluxcd.io/v1``: ImageRepository and ImagePolicy, tags of images and their choice.

Fields, patterns, defaults and rules are those of Flux's image-reflector-controller. The automation
that writes a choice into Git is in ``crds.image_automation``; older versions are in
``crds.image_v1beta2`` and ``crds.image_v1beta1``.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds import source_parts as parts
from crds.rules import Rule

GROUP: Final = "image.toolkit.fluxcd.io"

_SCAN: Final = 300.0
"""Seconds that a scan may take where nothing says how long."""
SIGNATURES: Final = r"^.*\.sig$"
"""What is excluded unless the spec says otherwise: signatures that lie beside images as tags."""


class ImageRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which tags to list, how often, and with which credentials."""

    image: str
    """Repository of the image, e.g. `ghcr.io/org/app`, without a scheme, tag or digest."""
    interval: meta.Duration
    """How often to list the tags, e.g. `5m`."""
    timeout: meta.ShortDuration = ""
    """How long one scan may take. Defaults to the interval, at most `5m`."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret of type `kubernetes.io/dockerconfigjson` with the registry's credentials."""
    proxy_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `address` of a proxy, and `username` and `password` where it asks for
    them."""
    service_account_name: Annotated[str, Meta(max_length=253)] = ""
    """ServiceAccount whose `imagePullSecrets` are used, or with another provider than `generic`
    the one whose workload identity signs in."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the registry needs
    them."""
    suspend: bool = False
    """Stop scanning. The tags of the last scan stay available to policies."""
    access_from: parts.AccessFrom | None = None
    """Namespaces whose ImagePolicies may refer to this object: one selector must match the labels
    of the namespace. A ReferenceGrant allows it as well."""
    exclusion_list: Annotated[
        list[str],
        Meta(max_length=25, extra_json_schema={"default": [SIGNATURES]}),
    ] = field(default_factory=lambda: [SIGNATURES])
    """Regular expressions (RE2) for tags to leave out."""
    provider: Literal["generic", "aws", "azure", "gcp"] = "generic"
    """Who vouches for the credentials: `generic` uses secretRef and the ServiceAccount's pull
    secrets, the others take a token from the cloud's workload identity."""
    insecure: bool = False
    """Speak HTTP without TLS to the registry."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two scans."""
        return meta.interval_seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one scan."""
        return (
            meta.timeout_seconds(self.timeout)
            if self.timeout
            else min(self.interval_seconds, _SCAN)
        )


class ScanResult(meta.ApiStruct, frozen=True, kw_only=True):
    """What the last scan found."""

    revision: str = ""
    """Digest over the names of the tags."""
    tag_count: meta.Count
    """Number of tags, without those that are excluded."""
    scan_time: meta.Timestamp = ""
    """When the tags were listed."""
    latest_tags: list[str] = field(default_factory=list)
    """The first ten tags in descending order of their names."""


class ImageRepositoryStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was scanned last, and how that went."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled."""
    canonical_image_name: str = ""
    """Name of the image with everything that is implied, e.g. `index.docker.io/library/nginx`."""
    last_scan_result: ScanResult | None = None
    """Result of the last successful scan."""
    observed_exclusion_list: list[str] = field(default_factory=list)
    """spec.exclusionList of the last successful scan."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class ImageRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tags of an image in a registry."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ImageRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImageRepositorySpec = unwritten.spec(ImageRepositorySpec)
    status: ImageRepositoryStatus = field(
        default_factory=lambda: ImageRepositoryStatus(observed_generation=-1)
    )


class SemVerPolicy(meta.ApiStruct, frozen=True, kw_only=True):
    """Takes the highest version in a range."""

    range: str
    """Range of versions, e.g. `>=1.0.0 <2.0.0` or `1.x`."""


class AlphabeticalPolicy(meta.ApiStruct, frozen=True, kw_only=True):
    """Takes the last tag in the order of their texts."""

    order: Literal["asc", "desc"] = "asc"
    """`asc` takes the last in alphabetical order, `desc` the first."""


class NumericalPolicy(meta.ApiStruct, frozen=True, kw_only=True):
    """Takes the tag with the highest number."""

    order: Literal["asc", "desc"] = "asc"
    """`asc` takes the highest number, `desc` the lowest."""


class ImagePolicyChoice(meta.ApiStruct, frozen=True, kw_only=True):
    """How to choose among the tags; one must be set."""

    semver: SemVerPolicy | None = None
    """Take the highest version in a range."""
    alphabetical: AlphabeticalPolicy | None = None
    """Take the last in the order of their texts."""
    numerical: NumericalPolicy | None = None
    """Take the highest number."""


class TagFilter(meta.ApiStruct, frozen=True, kw_only=True):
    """Which tags take part, and what of them is compared."""

    pattern: str = ""
    """Regular expression (RE2) that a tag must match."""
    extract: str = ""
    """What to compare instead of the whole tag: groups of the pattern, e.g. `$ts`."""


class ImagePolicySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Among which tags to choose, and how."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.interval) || "
            "(has(self.digestReflectionPolicy) && self.digestReflectionPolicy == 'Always')",
            "spec.interval is only accepted when spec.digestReflectionPolicy is set to 'Always'",
        ),
        Rule(
            "has(self.interval) || "
            "!has(self.digestReflectionPolicy) || self.digestReflectionPolicy != 'Always'",
            "spec.interval must be set when spec.digestReflectionPolicy is set to 'Always'",
        ),
    )

    image_repository_ref: meta.NamespacedObjectReference
    """ImageRepository whose tags to choose from. One in another namespace must allow it, with
    accessFrom or by a ReferenceGrant."""
    policy: ImagePolicyChoice
    """How to choose."""
    filter_tags: TagFilter | None = None
    """Which tags take part. Defaults to all."""
    digest_reflection_policy: Literal["Always", "IfNotPresent", "Never"] = "Never"
    """Whether to tell the digest of the image: `IfNotPresent` looks it up when the tag changes,
    `Always` in every pass."""
    interval: meta.Duration = ""
    """How often to look the digest up; only with `Always`."""
    suspend: bool = False
    """Stop choosing. The last choice stays, and automations go on writing it unless a policy of the
    cluster would refuse it."""


class ImageRef(meta.ApiStruct, frozen=True, kw_only=True):
    """An image by name, tag and perhaps digest."""

    name: str
    """Name of the image, without tag."""
    tag: str
    """Tag of the image."""
    digest: str = ""
    """Digest that the tag led to."""


class ImagePolicyStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was chosen, and how that went."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled."""
    latest_ref: ImageRef | None = None
    """Image that was chosen."""
    observed_previous_ref: ImageRef | None = None
    """Image that was chosen before."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class ImagePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The choice of one tag of an image."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ImagePolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImagePolicySpec = unwritten.spec(ImagePolicySpec)
    status: ImagePolicyStatus = field(
        default_factory=lambda: ImagePolicyStatus(observed_generation=-1)
    )
