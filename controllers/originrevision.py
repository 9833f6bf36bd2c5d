"""The upstream revision that an artifact was made of, as metadata of events.

The author of an artifact writes its annotations, so this is a claim and no proof.
"""

from typing import Final

from crds.meta import Artifact

ANNOTATION: Final = "org.opencontainers.image.revision"
"""Annotation of OCI images, for example with a commit (OCI image specification)."""


def of(artifact: Artifact | None) -> str:
    """Return the revision from the metadata of an artifact, or empty."""
    return str((artifact.metadata or {}).get(ANNOTATION, "")) if artifact else ""


def about(artifact: Artifact | None) -> dict[str, str]:
    """Return the metadata for events that concern an artifact."""
    found = of(artifact)
    return {"originRevision": found} if found else {}
