"""The status history: the last outcomes, one entry a digest, newest first."""

from collections.abc import Mapping, Sequence
from typing import Final

from crds.kustomize import HistoryEntry
from toolkit.objects import Json

LIMIT: Final = 5


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
