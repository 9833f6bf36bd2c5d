"""Conditions are values: nothing changes in place, times move only with the status."""

import datetime as dt

from toolkit.kube import conditions

EARLY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATE = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def test_a_new_condition_gets_time_and_generation() -> None:
    wanted = conditions.make("Ready", "True", "Succeeded", "fine")

    result = conditions.put([], wanted, generation=2, now=EARLY)

    assert result == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "fine",
            "observedGeneration": 2,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


def test_the_time_stays_while_the_status_stays() -> None:
    ready = conditions.make("Ready", "True", "Succeeded", "fine")
    again = conditions.make("Ready", "True", "Other", "finer")
    broken = conditions.make("Ready", "False", "Failed", "broken")
    before = conditions.put([], ready, generation=1, now=EARLY)

    same = conditions.put(before, again, generation=2, now=LATE)
    changed = conditions.put(before, broken, generation=2, now=LATE)

    assert same[0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert same[0]["message"] == "finer"
    assert changed[0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"
    assert before[0]["message"] == "fine"


def test_the_order_is_that_of_flux() -> None:
    result: list[dict[str, object]] = []
    for type_ in ("Healthy", "Stalled", "ArtifactInStorage", "Ready", "Reconciling"):
        wanted = conditions.make(type_, "True", "X", "")
        result = conditions.put(result, wanted, generation=1, now=EARLY)

    assert [entry["type"] for entry in result] == [
        "Stalled",
        "Reconciling",
        "Ready",
        "ArtifactInStorage",
        "Healthy",
    ]


def test_remove_and_find() -> None:
    entries = [conditions.make(type_, "True", "X", type_) for type_ in ("Ready", "Stalled")]

    assert conditions.remove(entries, "Stalled", "Absent") == entries[:1]
    assert conditions.find(entries, "Stalled") == entries[1]
    assert conditions.find(entries, "Absent") is None
    assert conditions.is_true(entries, "Ready")
    assert not conditions.is_true(entries, "Absent")


def test_a_condition_is_restored_with_its_times() -> None:
    first = conditions.put(
        [], conditions.make("Healthy", "True", "X", "fine"), generation=1, now=EARLY
    )
    changed = conditions.put(
        first, conditions.make("Healthy", "Unknown", "Y", "looking"), generation=2, now=EARLY
    )

    assert conditions.restore(changed, "Healthy", first[0]) == first
    assert conditions.restore(changed, "Healthy", None) == []


def test_a_message_is_cut_to_what_people_read() -> None:
    message = conditions.make("Ready", "False", "Failed", "x" * 40_000)["message"]

    assert len(message) <= 2048
    assert message.endswith("x... (37992 more characters)")


def test_a_message_of_usual_length_is_kept() -> None:
    assert conditions.shortened("x" * 2048) == "x" * 2048
