"""``source.toolkit.fluxcd.io/v1``: ExternalArtifact, an artifact of a third-party controller.

Its author writes the object and its status; consumers read the status alone. It has no
interval, and its status begins empty: nothing of ours reconciles it.
"""

from msgspec import Struct, field

from crds import meta
from crds.source import GROUP


class ExternalArtifactSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What the artifact was made for."""

    source_ref: meta.NamespacedObjectKindReference | None = None
    """Object that the artifact is made from, e.g. an ArtifactGenerator."""


class ExternalArtifactStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """The artifact, as its maker tells it."""

    artifact: meta.Artifact | None = None
    """Artifact that consumers fetch."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, if the maker tells it."""


class ExternalArtifact(Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact that a third party made and offers to the appliers."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ExternalArtifact"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ExternalArtifactSpec = ExternalArtifactSpec()
    status: ExternalArtifactStatus = ExternalArtifactStatus()
