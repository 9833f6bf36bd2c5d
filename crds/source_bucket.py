"""``source.toolkit.fluxcd.io/v1``: Bucket, manifests that lie in object storage.

Fields, patterns, defaults and rules are those of Flux's source-controller. Older versions live in
``crds.source_bucket_v1beta1`` and ``crds.source_bucket_v1beta2``.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds import source_parts as parts
from crds.rules import Rule
from crds.source import GROUP

_STS_RULES: Final = (
    Rule(
        "self.provider == 'aws' || self.provider == 'generic' || !has(self.sts)",
        "STS configuration is only supported for the 'aws' and 'generic' Bucket providers",
        field=".sts",
    ),
    Rule(
        "self.provider != 'aws' || !has(self.sts) || self.sts.provider == 'aws'",
        "'aws' is the only supported STS provider for the 'aws' Bucket provider",
        field=".sts",
    ),
    Rule(
        "self.provider != 'generic' || !has(self.sts) || self.sts.provider == 'ldap'",
        "'ldap' is the only supported STS provider for the 'generic' Bucket provider",
        field=".sts",
    ),
    Rule(
        "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.secretRef)",
        "spec.sts.secretRef is not required for the 'aws' STS provider",
        field=".sts",
        reason="FieldValueForbidden",
    ),
    Rule(
        "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.certSecretRef)",
        "spec.sts.certSecretRef is not required for the 'aws' STS provider",
        field=".sts",
        reason="FieldValueForbidden",
    ),
)
_ACCOUNT_RULES: Final = (
    Rule(
        "self.provider != 'generic' || !has(self.serviceAccountName)",
        "ServiceAccountName is not supported for the 'generic' Bucket provider",
        field=".serviceAccountName",
        reason="FieldValueForbidden",
    ),
    Rule(
        "!has(self.secretRef) || !has(self.serviceAccountName)",
        "cannot set both .spec.secretRef and .spec.serviceAccountName",
        field=".serviceAccountName",
        reason="FieldValueForbidden",
    ),
)


class BucketSTS(meta.ApiStruct, frozen=True, kw_only=True):
    """A security token service that hands out short-lived credentials."""

    provider: Literal["aws", "ldap"]
    """What the service speaks: `aws` with the provider `aws`, `ldap` (as MinIO does) with
    `generic`."""
    endpoint: Annotated[str, Meta(pattern=r"^(http|https)://.*$")]
    """Address of the service."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `username` and `password` to sign in with. Only for `ldap`."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the service needs
    them. Only for `ldap`."""


class BucketSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    RULES: ClassVar[tuple[Rule, ...]] = (*_STS_RULES, *_ACCOUNT_RULES)

    provider: Literal["generic", "aws", "gcp", "azure"] = "generic"
    """What the storage speaks and who vouches for the credentials: `generic` is any storage with
    the S3 API, `aws` S3, `gcp` Google Cloud Storage, `azure` Azure Blob Storage."""
    bucket_name: str
    """Name of the bucket, or of the container."""
    endpoint: str
    """Address of the storage, e.g. `minio.example.com` or `s3.amazonaws.com`."""
    interval: meta.Duration
    """How often to list the bucket, e.g. `5m`. Nothing is fetched while keys and etags are
    unchanged."""
    timeout: meta.ShortDuration = "60s"
    """How long one fetch may take, everything included, before it is cancelled."""
    region: str = ""
    """Region of the bucket."""
    prefix: str = ""
    """Take only objects whose keys begin with this."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with credentials: `accesskey` and `secretkey` for S3, `serviceaccount` for `gcp`; for
    `azure` an `accountKey`, a `sasKey`, or `clientId` with `tenantId` and a secret or
    certificate."""
    service_account_name: str = ""
    """ServiceAccount whose workload identity signs in. Not for `generic`, and not with
    secretRef."""
    sts: BucketSTS | None = None
    """Token service to get credentials from. Only for `aws` and `generic`."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the storage needs
    them. Only for `generic`."""
    proxy_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `address` of a proxy, and `username` and `password` where it asks for
    them."""
    insecure: bool = False
    """Speak HTTP without TLS to the storage."""
    ignore: str = ""
    """Objects to leave out of the artifact, in .gitignore syntax. Replaces the built-in list and
    applies in addition to a .sourceignore object at the root."""
    suspend: bool = False
    """Stop fetching. The last artifact stays available."""
    access_from: parts.AccessFrom | None = None
    """Accepted and without effect. Flux's v1 lacks it; it is kept so that objects in v1beta2 lose
    nothing."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the bucket."""
        return meta.interval_seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one fetch."""
        return meta.timeout_seconds(self.timeout)


class BucketStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    observed_ignore: str | None = None
    """spec.ignore that the last artifact was built with."""


class Bucket(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bucket in object storage, whose objects are offered as files of an artifact."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "Bucket"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: BucketSpec = unwritten.spec(BucketSpec)
    status: BucketStatus = field(default_factory=lambda: BucketStatus(observed_generation=-1))
