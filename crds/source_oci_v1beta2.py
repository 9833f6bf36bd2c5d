"""``source.toolkit.fluxcd.io/v1beta2``: OCIRepository as Flux served it up to 2.7."""

from msgspec import Struct, field

from crds import meta, source_oci
from crds.source import GROUP


class OCIRepositoryStatus(source_oci.OCIRepositoryStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    content_config_checksum: str = ""
    """Deprecated: checksum over the ignore and layer settings of the last artifact."""


class OCIRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact in a container registry, whose files are offered to the cluster."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "OCIRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: source_oci.OCIRepositorySpec
    status: OCIRepositoryStatus = field(
        default_factory=lambda: OCIRepositoryStatus(observed_generation=-1)
    )
