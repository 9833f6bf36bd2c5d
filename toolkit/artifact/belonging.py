"""Whose artifact it is: the one that an object's status names must be the object's own.

The status of an ExternalArtifact is written by third parties. One that names a neighbour's artifact
would have a consumer fetch it, who gets through to the store where its tenants do not, and knows it
by its digest. So an address that has the store's form has to name the object itself, wherever it
is; what third parties serve elsewhere, by other forms, is theirs. Pure.
"""

from typing import Final

from yarl import URL

from crds import EXTERNAL_ARTIFACT
from crds.meta import Artifact
from toolkit.artifact.kinds import KINDS
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

REASON: Final = "ArtifactFailed"


def require_own(artifact: Artifact, owner: Owner) -> None:
    """Refuse an artifact at an address of the store that is another object's.

    Raises:
        TransientError: it is; or it is not an address at all.
    """
    try:
        # As a server will understand it: decoded, and without the dots that lead elsewhere.
        segments = [part for part in URL(artifact.url).path.split("/") if part]
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
