"""Results of a signature verification: metadata of the artifact, and the condition SourceVerified.

The metadata name the signer, for policies and for users of the artifact, and the time until which
the verification is valid: a certificate may be revoked later. A reconciliation checks this time
(``left``) and verifies the signature again if necessary, without a fetch. This module does not
verify signatures.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crds.meta import VERIFIED, Artifact
from toolkit.kube import conditions
from toolkit.kube.reconciliation import Reconciliation
from toolkit.verify.signature import FACT, Proof

FRESH: Final = "source.penstock.dev/fresh-until"
"""Artifact metadata: the time (ISO 8601) at which the signature must be verified again."""

SOONEST: Final = 60.0
"""Minimal delay in seconds before a reconciliation verifies a signature again."""

_CONDITION: Final = "SourceVerified"


def metadata(proof: Proof | None, *, vouched: bool) -> dict[str, str]:
    """Return the metadata for an artifact.

    If the signature does not cover the whole content (``vouched``), they name no signer.
    """
    if proof is None:
        return {}
    until = proof.fresh_until
    kept = {FRESH: until.astimezone(UTC).isoformat(timespec="seconds")} if until else {}
    if proof.tolerated or not vouched:
        return kept
    return {**kept, VERIFIED: proof.message, **proof.facts}


def show(rec: Reconciliation[Any], proof: Proof | None) -> None:
    """Set SourceVerified; it is Unknown if a policy tolerates the missing or invalid signature."""
    if proof is None:
        rec.unmark(_CONDITION)
    elif proof.tolerated:
        rec.mark(_CONDITION, "Unknown", "Ignored", proof.message)
    else:
        rec.mark(_CONDITION, "True", "Succeeded", proof.message)


def shown(rec: Reconciliation[Any], stored: Artifact, *, demanded: bool) -> bool:
    """Set SourceVerified for the stored artifact, for example after another revision was refused.

    ``demanded`` tells whether the spec asks for a signature. Return False if the metadata name no
    signer and the condition is False; then the artifact must be verified again.
    """
    if not demanded:
        rec.unmark(_CONDITION)
        return True
    if message := stored.metadata.get(VERIFIED):
        rec.mark(_CONDITION, "True", "Succeeded", message)
        return True
    return _status(rec) != "False"


def left(stored: Artifact, now: datetime) -> float | None:
    """Return the seconds until the signature must be verified again; None for never."""
    text = stored.metadata.get(FRESH)
    if text is None:
        return None
    try:
        return (datetime.fromisoformat(text) - now).total_seconds()
    except (ValueError, TypeError):  # Not a time, or without a time zone.
        return 0.0


def renewed(rec: Reconciliation[Any], stored: Artifact, proof: Proof) -> dict[str, str] | None:
    """Return the metadata of the stored artifact with a new proof; None if the claims differ."""
    claimed = VERIFIED in stored.metadata
    made = metadata(proof, vouched=claimed)
    if proof.tolerated != (_status(rec) == "Unknown") or _claims(made) != _claims(stored.metadata):
        return None
    kept = {name: value for name, value in stored.metadata.items() if name != FRESH}
    return {**kept, **made}


def _claims(kept: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in kept.items() if k == VERIFIED or k.startswith(FACT)}


def _status(rec: Reconciliation[Any]) -> str:
    found = conditions.find(rec.conditions, _CONDITION)
    return str(found["status"]) if found else ""
