"""Whose unfinished actions are waited for, and for how long."""

from datetime import UTC, datetime

import pytest

from controllers.helm.deciding import locks
from controllers.helm.deciding.locks import RECORDER, Writer
from toolkit.errors import WaitingError

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RELEASE = {"f:data": {"f:release": {}}}


def wait(wrote: Writer) -> WaitingError | None:
    try:
        locks.require_over("team/app.v2", "pending-upgrade", wrote, timeout=300, now=NOW)
    except WaitingError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("manager", "time", "seconds"),
    [
        ("Helm", "2026-01-01T11:59:00Z", 240),
        ("helm-controller", "2026-01-01T11:59:00Z", 240),
        ("Helm", "2026-01-01T11:55:01Z", 1),
        ("Helm", "2026-01-01T11:55:00Z", None),
        ("", "2026-01-01T13:59:00.123456789+02:00", 240.123456),
        # clocks differ a little, but no action begins tomorrow
        ("Helm", "2026-01-01T12:00:05Z", 305),
        ("Helm", "2026-01-02T12:00:00Z", None),
        ("Helm", "9999-12-31T23:59:59Z", None),
        ("Helm", "0001-01-01T00:00:00Z", None),
        (RECORDER, "2026-01-01T11:59:59Z", None),
        ("", "", None),
        ("Helm", "yesterday", None),
        ("Helm", "2026-01-01T11:59:00", None),
    ],
)
def test_a_young_action_of_another_client_is_waited_for(
    manager: str, time: str, seconds: float | None
) -> None:
    found = wait(Writer(manager=manager, time=time))

    assert (found and found.retry_after) == (seconds and pytest.approx(seconds))


def test_the_message_says_whose_since_when_and_until_when() -> None:
    found = wait(Writer(manager="Helm", time="2026-01-01T11:59:00Z"))

    assert found is not None
    assert found.reason == "PendingRelease"
    assert str(found) == (
        "Helm release team/app.v2 has the status 'pending-upgrade' since 2026-01-01T11:59:00Z:"
        " 'Helm' is working on it; the release is left alone until that ends, or until"
        " 2026-01-01T12:04:00Z"
    )


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], Writer(time="noted")),
        (
            [{"manager": "Helm", "time": "1", "fieldsV1": RELEASE}],
            Writer(manager="Helm", time="1"),
        ),
        # who labels a record has not written it
        (
            [
                {"manager": RECORDER, "time": "1", "fieldsV1": RELEASE},
                {"manager": "kubectl", "time": "2", "fieldsV1": {"f:metadata": {}}},
            ],
            Writer(manager=RECORDER, time="1"),
        ),
        (
            [
                {"manager": "Helm", "time": "2", "fieldsV1": RELEASE},
                {"manager": RECORDER, "time": "1", "fieldsV1": RELEASE},
            ],
            Writer(manager="Helm", time="2"),
        ),
        ([{"manager": "Helm", "fieldsV1": RELEASE}], Writer(manager="Helm", time="noted")),
        ([{}], Writer(time="noted")),
    ],
)
def test_the_writer_is_who_wrote_the_content_last(
    entries: list[dict[str, object]], expected: Writer
) -> None:
    assert locks.writer({"metadata": {"managedFields": entries}}, noted="noted") == expected


@pytest.mark.parametrize(
    ("status", "action"),
    [("pending-install", "install"), ("uninstalling", "uninstall"), ("deployed", "")],
)
def test_a_status_names_an_unfinished_action(status: str, action: str) -> None:
    assert locks.action(status) == action
