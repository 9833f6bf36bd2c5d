"""The status history: the last outcomes, one entry a digest, newest first."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from controllers.kustomize.sources import Sources
from crds.kustomize import HistoryEntry, Kustomization
from crds.meta import format_duration
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import Json

Pass = Reconciliation[Kustomization]

LIMIT: Final = 5


def record(rec: Pass, sources: Sources, *, digest: str, reason: str, started: float) -> None:
    """Put the outcome of this pass into ``status.history``; ``started`` is monotonic."""
    metadata = {"revision": sources.revision}
    if sources.origin_revision:
        metadata["originRevision"] = sources.origin_revision
    entries = upsert(
        rec.obj.status.history,
        digest=digest,
        reason=reason,
        duration=format_duration(time.monotonic() - started),
        now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        metadata=metadata,
    )
    rec.status({"history": entries})


def build_digest(objects: Sequence[Json]) -> str:
    """Return the digest of a build, which a history entry stands for."""
    encoder = msgspec.json.Encoder(order="sorted")
    hasher = hashlib.sha256()
    for obj in objects:
        hasher.update(encoder.encode(obj))
    return f"sha256:{hasher.hexdigest()}"


def upsert(  # noqa: PLR0913 - what an entry consists of
    history: Sequence[HistoryEntry],
    *,
    digest: str,
    reason: str,
    duration: str,
    now: str,
    metadata: Mapping[str, str],
) -> list[Json]:
    """Count one more reconcile of ``digest`` that ended with ``reason``.

    ``now`` is an RFC 3339 time, ``duration`` a Go duration. An outcome that differs from the
    newest entry's opens a new one; at most five are kept.
    """
    entries = [_json(entry) for entry in history]
    same = next(
        (e for e in entries if (e["digest"], e["lastReconciledStatus"]) == (digest, reason)), None
    )
    current = {
        "digest": digest,
        "firstReconciled": same["firstReconciled"] if same else now,
        "lastReconciled": now,
        "lastReconciledDuration": duration,
        "lastReconciledStatus": reason,
        "totalReconciliations": (same["totalReconciliations"] if same else 0) + 1,
        "metadata": dict(metadata),
    }
    return [current, *(entry for entry in entries if entry is not same)][:LIMIT]


def _json(entry: HistoryEntry) -> Json:
    return {
        "digest": entry.digest,
        "firstReconciled": entry.first_reconciled,
        "lastReconciled": entry.last_reconciled,
        "lastReconciledDuration": entry.last_reconciled_duration,
        "lastReconciledStatus": entry.last_reconciled_status,
        "totalReconciliations": entry.total_reconciliations,
        "metadata": dict(entry.metadata),
    }
