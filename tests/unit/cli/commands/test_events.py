"""Events of our kinds, oldest first."""

from datetime import UTC, datetime
from typing import Any

from cli.commands import events

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def event(kind: str, moment: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "flux-system"},
        "involvedObject": {"kind": kind, "name": "apps"},
        "lastTimestamp": moment,
        "type": "Normal",
        "reason": "ReconciliationSucceeded",
        "message": "done",
        **more,
    }


def test_other_kinds_are_left_out_and_the_rest_is_sorted() -> None:
    late = event("Kustomization", "2026-01-01T11:59:00Z")
    early = event("GitRepository", "2026-01-01T11:00:00Z")

    found = events.ours([late, event("Pod", "2026-01-01T11:30:00Z"), early])

    assert found == [early, late]


def test_series_and_new_api_times_count() -> None:
    series = event("Kustomization", "", series={"lastObservedTime": "2026-01-01T11:58:00.000000Z"})
    single = event("Kustomization", "", eventTime="2026-01-01T11:59:00.000000Z")

    assert events.last_seen(series) == "2026-01-01T11:58:00.000000Z"
    assert events.last_seen(single) == "2026-01-01T11:59:00.000000Z"


def test_repeated_event_shows_its_count() -> None:
    repeated = event("Kustomization", "2026-01-01T11:55:00Z", count=7)

    text = events.render([repeated], NOW, namespaces=False, header=True)

    assert text.splitlines()[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "5m (x7)" in text
    assert "Kustomization/apps" in text


def test_namespace_is_shown_when_there_are_several() -> None:
    text = events.render(
        [event("Kustomization", "2026-01-01T11:55:00Z")], NOW, namespaces=True, header=False
    )

    assert text.split()[0] == "flux-system"
