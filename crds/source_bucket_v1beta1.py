"""``source.toolkit.fluxcd.io/v1beta1``: Bucket as Flux served it up to 2.6.

Durations have no pattern here: any Go duration was taken. Fields without a text below them mean
what they mean in ``crds.source_bucket``.
"""

from typing import Final, Literal

from msgspec import Struct, field

from crds import meta
from crds import source_parts as parts
from crds.change import Change
from crds.source import GROUP
from crds.source_parts_v1beta1 import ARTIFACT, SourceStatus, durations


class BucketSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    provider: Literal["generic", "aws", "gcp"] = "generic"
    """What the storage speaks: `generic` is any storage with the S3 API, `aws` S3, `gcp` Google
    Cloud Storage."""
    bucket_name: str
    endpoint: str
    insecure: bool = False
    region: str = ""
    secret_ref: meta.LocalObjectReference | None = None
    interval: str
    timeout: str = "60s"
    ignore: str = ""
    suspend: bool = False
    access_from: parts.AccessFrom | None = None
    """Deprecated: accepted and without effect."""


class Bucket(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bucket in object storage, whose objects are offered as files of an artifact."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "Bucket"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: BucketSpec
    status: SourceStatus = field(default_factory=lambda: SourceStatus(observed_generation=-1))


CHANGES: Final[tuple[Change, ...]] = (*durations(), ARTIFACT)
