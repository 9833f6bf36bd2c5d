"""``status.history``: the last five outcomes, newest first, one per digest and reason."""

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
    """Add the outcome of this reconciliation to ``status.history``.

    ``started`` is the monotonic time of its start in seconds.
    """
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
    """Return the digest of the built objects, ``sha256:<hex>``."""
    encoder = msgspec.json.Encoder(order="sorted")
    hasher = hashlib.sha256()
    for obj in objects:
        hasher.update(encoder.encode(obj))
    return f"sha256:{hasher.hexdigest()}"


def upsert(  # noqa: PLR0913 - the fields of an entry
    history: Sequence[HistoryEntry],
    *,
    digest: str,
    reason: str,
    duration: str,
    now: str,
    metadata: Mapping[str, str],
) -> list[Json]:
    """Return the history with one more reconciliation of ``digest`` that ended with ``reason``.

    ``now`` is an RFC 3339 time, ``duration`` is a Go duration. An entry with the same digest and
    reason is counted up and moved to the top; otherwise a new entry is added. The history has at
    most five entries.
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
