"""What a proof of a signature leaves behind: artifact metadata, and the condition SourceVerified.

The metadata say who signed, for policies and for consumers, and until when that is known: a
certificate may be revoked after its signature was checked. So a pass asks `due`, and has the proof
made again, which takes no fetch. Nothing here verifies anything.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crds.meta import VERIFIED, Artifact
from toolkit.kube import conditions
from toolkit.kube.reconciliation import Reconciliation
from toolkit.verify.signature import FACT, Proof

FRESH: Final = "source.penstock.dev/fresh-until"
"""Artifact metadata: when the proof has to be made again."""

SOONEST: Final = 60.0
"""Seconds; a pass that makes a proof again is planned no sooner."""

_CONDITION: Final = "SourceVerified"


def metadata(proof: Proof | None, *, vouched: bool) -> dict[str, str]:
    """Return what the artifact keeps; whose content is not all ``vouched`` for claims nothing."""
    if proof is None:
        return {}
    until = proof.fresh_until
    kept = {FRESH: until.astimezone(UTC).isoformat(timespec="seconds")} if until else {}
    if proof.tolerated or not vouched:
        return kept
    return {**kept, VERIFIED: proof.message, **proof.facts}


def show(rec: Reconciliation[Any], proof: Proof | None) -> None:
    """Tell who signed; what a policy let pass in spite of its signature is not verified."""
    if proof is None:
        rec.unmark(_CONDITION)
    elif proof.tolerated:
        rec.mark(_CONDITION, "Unknown", "Ignored", proof.message)
    else:
        rec.mark(_CONDITION, "True", "Succeeded", proof.message)


def shown(rec: Reconciliation[Any], stored: Artifact, *, demanded: bool) -> bool:
    """Tell again of what is stored, after another revision was refused; False if that is unknown.

    It is not where the artifact does not say who signed: it has to be verified again.
    """
    if not demanded:
        rec.unmark(_CONDITION)
        return True
    if message := stored.metadata.get(VERIFIED):
        rec.mark(_CONDITION, "True", "Succeeded", message)
        return True
    return _status(rec) != "False"


def left(stored: Artifact, now: datetime) -> float | None:
    """Return the seconds until the proof has to be made again; ``None`` if it never has."""
    text = stored.metadata.get(FRESH)
    if text is None:
        return None
    try:
        return (datetime.fromisoformat(text) - now).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a zone
        return 0.0


def renewed(rec: Reconciliation[Any], stored: Artifact, proof: Proof) -> dict[str, str] | None:
    """Return the stored artifact's metadata with a proof made again; ``None`` if it says other."""
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
