"""The history tells what was released, and to what a rollback may go (Flux: ``Snapshots``)."""

from typing import Any

import pytest

from controllers.helm.deciding import snapshots
from crds import helm_status
from crds.helm_status import Snapshot
from tests.fakes.releases import made, snapshot


def worked(version: int, **changes: Any) -> Snapshot:
    return snapshot(version, "superseded", **changes)


def failed(version: int) -> Snapshot:
    return snapshot(version, "failed")


def untested(version: int) -> Snapshot:
    hooks = {"smoke": hook("Failed")}
    return worked(version, test_hooks=hooks)


def hook(phase: str) -> helm_status.TestHookStatus:
    return helm_status.TestHookStatus(phase=phase)


@pytest.mark.parametrize(
    ("history", "ignores", "expected"),
    [
        ([], False, None),
        ([worked(1)], False, None),
        ([failed(2), worked(1)], False, 1),
        ([worked(1), failed(2)], False, 1),
        ([failed(3), failed(2), worked(1)], False, 1),
        ([failed(3), failed(2)], False, None),
        ([failed(3), untested(2), worked(1)], False, 1),
        ([failed(3), untested(2), worked(1)], True, 2),
        ([worked(2), snapshot(1, "uninstalled")], False, None),
    ],
)
def test_the_last_release_that_worked_is_gone_back_to(
    history: list[Snapshot], expected: int | None, *, ignores: bool
) -> None:
    found = snapshots.previous(history, ignores_tests=ignores)

    assert (found.version if found else None) == expected


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (None, False),
        ([], True),
        (["Succeeded"], True),
        (["Succeeded", "Running"], False),
        (["Running", "Failed"], True),
        ([""], False),
    ],
)
def test_a_release_is_tested_when_all_succeeded_or_one_failed(
    phases: list[str] | None, *, expected: bool
) -> None:
    hooks = None
    if phases is not None:
        hooks = {str(n): hook(phase) for n, phase in enumerate(phases)}

    assert snapshots.tested(snapshot(test_hooks=hooks)) is expected


def test_a_release_is_put_before_the_others_and_the_superseded_one_is_read_again() -> None:
    hooks = {"smoke": hook("Succeeded")}
    before = [snapshot(1, "deployed", test_hooks=hooks, oci_digest="sha256:1")]

    found = snapshots.released(
        before, [made(1, "superseded"), made(2)], action="upgrade", oci_digest="sha256:2"
    )

    assert [(each.version, each.status, each.action, each.oci_digest) for each in found] == [
        (2, "deployed", "upgrade", "sha256:2"),
        (1, "superseded", "", "sha256:1"),
    ]
    assert found[1].test_hooks == hooks


def test_nothing_written_changes_nothing() -> None:
    before = (snapshot(1),)

    assert snapshots.released(before, [], action="install", oci_digest="") == before


def test_a_record_that_changed_replaces_its_entry() -> None:
    before = [snapshot(2, "pending-upgrade", action="upgrade", oci_digest="sha256:2"), worked(1)]

    found = snapshots.updated(before, made(2, "failed"), action="")

    assert [(each.version, each.status, each.action) for each in found] == [
        (2, "failed", "upgrade"),
        (1, "superseded", ""),
    ]
    assert found[0].oci_digest == "sha256:2"
    assert found[0].digest != before[0].digest


def test_a_record_that_is_not_known_is_added() -> None:
    found = snapshots.updated([worked(1)], made(2), action="rollback")

    assert [(each.version, each.action) for each in found] == [(2, "rollback"), (1, "")]


def test_names_are_told_as_flux_tells_them() -> None:
    assert snapshots.release_name(snapshot(3)) == "team/app.v3"
    assert snapshots.chart_name(snapshot(3)) == "shop@1.0.0"
