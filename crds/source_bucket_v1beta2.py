"""``source.toolkit.fluxcd.io/v1beta2``: Bucket as Flux served it up to 2.7."""

from msgspec import Struct, field

from crds import meta, source_bucket
from crds.source import GROUP


class Bucket(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bucket in object storage, whose objects are offered as files of an artifact."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "Bucket"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: source_bucket.BucketSpec
    status: source_bucket.BucketStatus = field(
        default_factory=lambda: source_bucket.BucketStatus(observed_generation=-1)
    )
