"""Whether an artifact belongs to the object whose status names it.

Third parties write the status of an ExternalArtifact. If it named the artifact of another tenant, a
controller would fetch it, because the controller can reach the store where tenants cannot. So a URL
in the form of the store must name the object itself. Third parties may serve artifacts elsewhere
under URLs of other forms. Pure.
"""

from typing import Final

from crds import EXTERNAL_ARTIFACT
from crds.meta import Artifact
from toolkit.artifact.kinds import KINDS
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError
from toolkit.remote import webaddress

REASON: Final = "ArtifactFailed"


def require_own(artifact: Artifact, owner: Owner) -> None:
    """Refuse an artifact at an address of the store that is another object's.

    Raises:
        TransientError: it is; or it is not an address at all.
    """
    try:
        # Decode the path and resolve dots, as a server will do.
        segments = [part for part in webaddress.read(artifact.url).path.split("/") if part]
    except ValueError as exc:
        raise _refused(artifact, owner, "that cannot be read") from exc
    *_, kind, namespace, name, _file = ["", "", "", "", *segments]
    stored = owner.kind != EXTERNAL_ARTIFACT.kind or kind.lower() in KINDS
    if stored and f"{kind}/{namespace}/{name}" != owner.path:
        raise _refused(artifact, owner, "of another object")


def _refused(artifact: Artifact, owner: Owner, what: str) -> TransientError:
    return TransientError(
        f"the status of {owner.kind} '{owner.namespace}/{owner.name}' names an artifact at the "
        f"address {artifact.url[:300]!a} {what}",
        reason=REASON,
    )
