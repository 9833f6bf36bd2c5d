"""What is said of one object."""

from dataclasses import replace
from typing import Any

import pytest

from apiserver.inventories import rows
from apiserver.inventories.drift import Observed
from apiserver.inventories.rows import Flag, Row, Tracked
from tests.unit.apiserver.inventories.scene import CONFIG_MAP, KEY, REF, applied, seen
from toolkit.apply.fields import Writer
from toolkit.apply.health import Status
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

NEIGHBOUR = ObjectKey("bank", "vault")
ELSEWHERE = ObjectRef(CONFIG_MAP, "bank", "conf")
JOB = ObjectRef(GroupVersionKind("batch", "v1", "Job"), "shop", "once")


def _tracked(*states: Observed | None, ref: ObjectRef = REF, **known: Any) -> Tracked:
    tracked = Tracked(ref=ref)
    for state in states:
        tracked.take(state)
    for name, value in known.items():
        setattr(tracked, name, value)
    return tracked


def _row(tracked: Tracked, reason: str = "", **changes: Any) -> Row:
    return rows.row(applied(REF, **changes), tracked, reason)


def test_a_current_object_is_fine() -> None:
    assert _row(_tracked(seen())).fine


@pytest.mark.parametrize(
    ("status", "flags"),
    [
        (Status.IN_PROGRESS, Flag.OBSERVED),
        (Status.FAILED, Flag.OBSERVED | Flag.FAILED),
        (Status.TERMINATING, Flag.OBSERVED),
    ],
)
def test_only_current_objects_are_ready(status: Status, flags: Flag) -> None:
    assert _row(_tracked(seen(status))).flags == flags


def test_a_changed_object_is_ready_and_drifted() -> None:
    row = _row(_tracked(seen(), seen(entry="less", writers=(Writer("kubectl", "Update", "1"),))))

    assert row.flags == Flag.OBSERVED | Flag.READY | Flag.DRIFTED
    assert row.drift.managers == ("kubectl",)


@pytest.mark.parametrize("mark", ["disabled", "yielded"])
def test_what_is_to_be_left_alone_does_not_drift(mark: str) -> None:
    taken = seen(entry="less", writers=(Writer("kubectl", "Update", "1"),))

    assert _row(_tracked(seen(), replace(taken, **{mark: True}))).fine


def test_what_is_only_created_is_missing_once_it_is_deleted() -> None:
    row = _row(_tracked(replace(seen(), yielded=True), None))

    assert row.flags == Flag.OBSERVED | Flag.DRIFTED | Flag.MISSING


def test_a_deleted_object_is_missing() -> None:
    row = _row(_tracked(seen(), None))

    assert row.flags == Flag.OBSERVED | Flag.DRIFTED | Flag.MISSING
    assert (row.health.status, row.drift.state) == (Status.NOT_FOUND, "Missing")


def test_while_its_applier_works_an_object_is_awaited() -> None:
    row = _row(_tracked(seen(), None), busy=True)

    assert (row.flags, row.health.status) == (Flag.OBSERVED, Status.IN_PROGRESS)


def test_a_job_that_deletes_itself_when_done_is_fine() -> None:
    done = replace(seen(), vanishing=True)
    working = replace(seen(Status.IN_PROGRESS), vanishing=True)

    assert _row(_tracked(done, None, ref=JOB)).fine
    assert _row(_tracked(working, None, ref=JOB)).flags & Flag.MISSING


def test_a_job_that_nobody_saw_is_not_said_to_be_missing() -> None:
    row = _row(_tracked(ref=JOB, exists=False))

    assert not row.flags
    assert "Job may delete itself" in row.reason


@pytest.mark.parametrize(
    ("look", "flags", "said"),
    [
        ({"exists": False}, Flag.OBSERVED | Flag.DRIFTED | Flag.MISSING, "deleted"),
        ({"exists": True}, Flag(0), "was not applied"),
        ({"exists": None}, Flag(0), "deleted, or never applied"),
        (None, Flag.UNREAD, "not read yet"),
    ],
)
def test_what_no_watch_shows_depends_on_a_look(
    look: dict[str, bool | None] | None, flags: Flag, said: str
) -> None:
    tracked = _tracked()
    if look is not None:
        tracked.look(exists=look["exists"])

    row = _row(tracked)

    assert row.flags == flags
    assert said in row.health.message


def test_only_objects_of_the_own_namespace_are_looked_for() -> None:
    cluster_scoped = ObjectRef(GroupVersionKind("", "v1", "Namespace"), "", "bank")

    looked_for = {
        ref: rows.looked_for(applied(ref), Tracked(ref=ref))
        for ref in (REF, ELSEWHERE, cluster_scoped)
    }

    assert looked_for == {REF: True, ELSEWHERE: False, cluster_scoped: False}


def test_an_object_of_another_applier_of_the_namespace_is_marked() -> None:
    row = _row(_tracked(seen(Status.FAILED, owner=ObjectKey("shop", "other"))))

    assert (row.flags, row.owner) == (Flag.OBSERVED | Flag.FOREIGN, "shop/other")
    assert row.health.status is Status.UNKNOWN


def test_a_neighbours_object_is_not_told_from_none() -> None:
    theirs = _tracked(seen(Status.FAILED, owner=NEIGHBOUR), ref=ELSEWHERE)
    nothing = _tracked(ref=ELSEWHERE)

    documents = [
        rows.document(applied(ELSEWHERE), tracked, _row(tracked)) for tracked in (theirs, nothing)
    ]

    assert documents[0] == documents[1]
    assert documents[0]["observed"] is False


@pytest.mark.parametrize("changes", [{"remote": True}, {}])
def test_what_cannot_be_seen_is_unobserved_and_says_why(changes: dict[str, Any]) -> None:
    reason = "" if changes else "Secret may not be watched"

    row = _row(_tracked(seen()), reason, **changes)

    assert not row.flags
    assert row.reason == (reason or rows.REMOTE)


def test_a_row_tells_of_the_object_that_it_is_about() -> None:
    tracked = _tracked(seen())

    document = rows.document(applied(REF), tracked, _row(tracked))

    assert document == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": KEY.namespace,
        "name": "conf",
        "revision": "main@sha1:" + "a" * 40,
        "appliedAt": "2026-01-02T00:00:00Z",
        "createdAt": "2026-01-01T00:00:00Z",
        "observed": True,
        "ready": True,
        "health": "Current",
        "reconcileDisabled": False,
    }


def test_what_is_not_read_yet_is_told_from_what_cannot_be_read() -> None:
    assert _row(_tracked(), rows.UNREAD).flags == Flag.UNREAD
    assert _row(_tracked(), "Secret may not be watched").flags == Flag(0)


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("status", Status)
def test_an_object_that_is_there_counts_by_its_status(status: Status, *, changed: bool) -> None:
    states = [seen(status), *([seen(status, resource_version="11", entry="x")] if changed else [])]

    flags = _row(_tracked(*states)).flags

    assert bool(flags & Flag.OBSERVED)
    assert bool(flags & Flag.READY) is (status is Status.CURRENT)
    assert bool(flags & Flag.FAILED) is (status is Status.FAILED)
    assert bool(flags & Flag.DRIFTED) is changed
    assert not flags & (Flag.MISSING | Flag.FOREIGN | Flag.UNREAD)
