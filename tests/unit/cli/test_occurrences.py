"""Events of our kinds, oldest first."""

from datetime import UTC, datetime
from typing import Any

from cli import occurrences

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


def test_other_kinds_and_types_are_left_out() -> None:
    every = occurrences.Query(about=None, namespace="", types=frozenset())
    warnings = occurrences.Query(about=None, namespace="", types=frozenset({"warning"}))
    own, foreign = event("Kustomization", ""), event("Pod", "")

    assert (every.admits(own), every.admits(foreign)) == (True, False)
    assert not warnings.admits(own)
    assert warnings.admits(event("Kustomization", "", type="Warning"))


def test_series_and_new_api_times_count() -> None:
    series = event("Kustomization", "", series={"lastObservedTime": "2026-01-01T11:58:00.000000Z"})
    single = event("Kustomization", "", eventTime="2026-01-01T11:59:00.000000Z")

    assert occurrences.last_seen(series) == "2026-01-01T11:58:00.000000Z"
    assert occurrences.last_seen(single) == "2026-01-01T11:59:00.000000Z"


def test_repeated_event_shows_its_count() -> None:
    repeated = event("Kustomization", "2026-01-01T11:55:00Z", count=7)

    text = occurrences.render([repeated], NOW, namespaces=False, header=True)

    assert text.splitlines()[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "5m (x7)" in text
    assert "Kustomization/apps" in text


def test_namespace_is_shown_when_there_are_several() -> None:
    text = occurrences.render(
        [event("Kustomization", "2026-01-01T11:55:00Z")], NOW, namespaces=True, header=False
    )

    assert text.split()[0] == "flux-system"
