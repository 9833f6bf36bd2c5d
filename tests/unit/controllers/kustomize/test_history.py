"""The status history counts repeats and keeps five outcomes."""

from controllers.kustomize import history
from crds.kustomize import HistoryEntry
from toolkit.objects import Json


def upsert(entries: list[Json], digest: str, reason: str = "ReconciliationSucceeded") -> list[Json]:
    known = [
        HistoryEntry(
            digest=entry["digest"],
            first_reconciled=entry["firstReconciled"],
            last_reconciled=entry["lastReconciled"],
            last_reconciled_duration=entry["lastReconciledDuration"],
            last_reconciled_status=entry["lastReconciledStatus"],
            total_reconciliations=entry["totalReconciliations"],
            metadata=entry["metadata"],
        )
        for entry in entries
    ]
    return history.upsert(
        known,
        digest=digest,
        reason=reason,
        duration="1s",
        now=f"2026-01-01T00:00:0{len(entries)}Z",
        metadata={"revision": digest},
    )


def test_same_outcome_is_counted_and_keeps_its_beginning() -> None:
    entries = upsert(upsert([], "sha256:a"), "sha256:a")

    assert len(entries) == 1
    assert entries[0]["totalReconciliations"] == 2
    assert entries[0]["firstReconciled"] == "2026-01-01T00:00:00Z"
    assert entries[0]["lastReconciled"] == "2026-01-01T00:00:01Z"


def test_failure_of_the_same_digest_is_an_entry_of_its_own() -> None:
    entries = upsert(upsert([], "sha256:a"), "sha256:a", reason="HealthCheckFailed")

    assert [entry["lastReconciledStatus"] for entry in entries] == [
        "HealthCheckFailed",
        "ReconciliationSucceeded",
    ]


def test_newest_is_first_and_five_are_kept() -> None:
    entries: list[Json] = []

    for number in range(8):
        entries = upsert(entries, f"sha256:{number}")

    assert [entry["digest"] for entry in entries] == [f"sha256:{n}" for n in (7, 6, 5, 4, 3)]


def test_outcome_that_returns_moves_to_the_front() -> None:
    entries = upsert(upsert(upsert([], "sha256:a"), "sha256:b"), "sha256:a")

    assert [entry["digest"] for entry in entries] == ["sha256:a", "sha256:b"]
    assert entries[0]["totalReconciliations"] == 2
