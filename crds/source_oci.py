"""``source.toolkit.fluxcd.io/v1``: OCIRepository, manifests that lie in a container registry.

Fields, patterns, defaults and rules are those of Flux's source-controller. The older version
lives in ``crds.source_oci_v1beta2``.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds import source_parts as parts
from crds.source import GROUP


class OCIRepositoryRef(meta.ApiStruct, frozen=True, kw_only=True):
    """Which artifact of a repository to take.

    Where several fields are set, the order is digest, semver, tag.
    """

    tag: str = ""
    """Tag to take. With nothing set at all, `latest`."""
    semver: str = ""
    """Range over the repository's tags, e.g. `>=1.0.0 <2.0.0`; the highest match is taken.
    Wins over tag."""
    semver_filter: str = ""
    """Regular expression (RE2) that a tag must match to take part in semver, e.g. `.*-rc.*`."""
    digest: str = ""
    """Digest of the artifact's manifest, as `sha256:<hex>`. Wins over all others."""


class OCILayerSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Which layer holds the files, and what to do with it."""

    media_type: str = ""
    """Media type of the layer; the first that has it is taken. Defaults to the first layer."""
    operation: Annotated[Literal["extract", "copy"], Meta(extra_json_schema=meta.IMPLIED)] = (
        "extract"
    )
    """`extract` unpacks the layer, `copy` offers its tarball as it is."""


class OCIRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to fetch, how often, and with which credentials."""

    url: Annotated[str, Meta(pattern=r"^oci://.*$")]
    """Repository in a registry, e.g. `oci://ghcr.io/org/manifests`, without tag or digest."""
    interval: meta.Duration
    """How often to ask the registry for a new digest, e.g. `5m`. Asking is cheap: nothing is
    fetched while the digest is unchanged."""
    timeout: meta.ShortDuration = "60s"
    """How long one fetch may take, everything included, before it is cancelled."""
    ref: OCIRepositoryRef | None = None
    """Tag, range or digest to take. Defaults to the tag `latest`."""
    layer_selector: OCILayerSelector | None = None
    """Layer to take. Defaults to unpacking the first."""
    provider: Literal["generic", "aws", "azure", "gcp"] = "generic"
    """Who vouches for the credentials: `generic` uses secretRef and the ServiceAccount's pull
    secrets, the others take a token from the cloud's workload identity."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret of type `kubernetes.io/dockerconfigjson` with the registry's credentials."""
    service_account_name: str = ""
    """ServiceAccount whose `imagePullSecrets` are used, or with another provider than `generic`
    the one whose workload identity signs in."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the registry needs
    them."""
    proxy_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `address` of a proxy, and `username` and `password` where it asks for
    them."""
    insecure: bool = False
    """Speak HTTP without TLS to the registry."""
    verify: parts.OCIVerification | None = None
    """Demand a signature. An artifact without a valid one is never offered."""
    ignore: str = ""
    """Files to leave out of the artifact, in .gitignore syntax. Replaces the built-in list and
    applies in addition to .sourceignore files in the layer."""
    suspend: bool = False
    """Stop fetching. The last artifact stays available."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the registry."""
        return meta.interval_seconds(self.interval)

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one fetch."""
        return meta.timeout_seconds(self.timeout)


class OCIRepositoryStatus(parts.LinkedSourceStatus, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    observed_ignore: str | None = None
    """spec.ignore that the last artifact was built with."""
    observed_layer_selector: OCILayerSelector | None = None
    """spec.layerSelector that the last artifact was built with."""


class OCIRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact in a container registry, whose files are offered to the cluster."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "OCIRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: OCIRepositorySpec = unwritten.spec(OCIRepositorySpec)
    status: OCIRepositoryStatus = field(
        default_factory=lambda: OCIRepositoryStatus(observed_generation=-1)
    )
