"""What is told of an action, word by word as Flux tells it: users' alerts match these texts."""

from typing import Any

import pytest

from controllers.helm.deciding import outcomes
from controllers.helm.deciding.outcomes import Happening
from tests.fakes.releases import release, snapshot

Json = dict[str, Any]

CHANGES = "Deployment/team/web changed (0 additions, 1 changes, 0 removals)"
WORDS = {
    "release": "team/app.v2",
    "chart": "shop@1.0.0",
    "target": "team/app",
    "wanted": "shop@1.1.0",
    "error": "  it broke {here}\n",
    "state": "pending-upgrade",
    "tests": "2 test hooks completed successfully",
    "changes": CHANGES,
    "partially": "partially ",
    "corrected": "",
}
OF = "for release team/app.v2 with chart shop@1.0.0"
WANTED = "for release team/app with chart shop@1.1.0: it broke {here}"
ROLLBACK = "Helm rollback to previous release team/app.v2 with chart shop@1.0.0"
STATE = "Helm release team/app.v2 with chart shop@1.0.0 in pending-upgrade state"
ROWS: list[tuple[Happening, str, str, str, str | None, str]] = [
    # happening, condition, status, reason, severity of the event, message
    (
        *(Happening.INSTALLED, "Released", "True", "InstallSucceeded", "info"),
        f"Helm install succeeded {OF}",
    ),
    (
        *(Happening.INSTALL_FAILED, "Released", "False", "InstallFailed", "error"),
        f"Helm install failed {WANTED}",
    ),
    (
        *(Happening.UPGRADED, "Released", "True", "UpgradeSucceeded", "info"),
        f"Helm upgrade succeeded {OF}",
    ),
    (
        *(Happening.UPGRADE_FAILED, "Released", "False", "UpgradeFailed", "error"),
        f"Helm upgrade failed {WANTED}",
    ),
    (
        *(Happening.AWAITS_TESTS, "TestSuccess", "Unknown", "AwaitingTests", None),
        "Helm release team/app.v2 with chart shop@1.0.0 is awaiting tests",
    ),
    (
        *(Happening.TESTED, "TestSuccess", "True", "TestSucceeded", "info"),
        f"Helm test succeeded {OF}: 2 test hooks completed successfully",
    ),
    (
        *(Happening.TEST_FAILED, "TestSuccess", "False", "TestFailed", "error"),
        f"Helm test failed {OF}: it broke {{here}}",
    ),
    (
        *(Happening.ROLLED_BACK, "Remediated", "True", "RollbackSucceeded", "info"),
        f"{ROLLBACK} succeeded",
    ),
    (
        *(Happening.ROLLBACK_FAILED, "Remediated", "False", "RollbackFailed", "error"),
        f"{ROLLBACK} failed: it broke {{here}}",
    ),
    (
        *(Happening.REMEDIATED_BY_UNINSTALL, "Remediated", "True", "UninstallSucceeded", "info"),
        f"Helm uninstall remediation {OF} succeeded",
    ),
    (
        *(Happening.UNINSTALL_REMEDIATION_FAILED, "Remediated", "False", "UninstallFailed"),
        *("error", f"Helm uninstall remediation {OF} failed: it broke {{here}}"),
    ),
    (
        *(Happening.UNINSTALLED, "Released", "False", "UninstallSucceeded", "info"),
        f"Helm uninstall succeeded {OF}",
    ),
    (
        *(Happening.UNINSTALL_FAILED, "Released", "False", "UninstallFailed", "error"),
        f"Helm uninstall failed {OF}: it broke {{here}}",
    ),
    (
        *(Happening.UNINSTALL_NOT_FOUND, "Released", "False", "UninstallSucceeded", None),
        "Release team/app.v2 was not found, assuming it is uninstalled",
    ),
    (
        *(Happening.UNINSTALLED_BEFORE, "Released", "False", "UninstallSucceeded", None),
        "Release team/app.v2 was already uninstalled",
    ),
    (
        *(Happening.UNLOCKED, "Released", "False", "PendingRelease", "info"),
        f"Unlocked {STATE}",
    ),
    (
        *(Happening.UNLOCK_FAILED, "Released", "False", "PendingRelease", "error"),
        f"Unlock of {STATE} failed: it broke {{here}}",
    ),
    (
        *(Happening.DRIFT, "Drifted", "True", "DriftDetected", "error"),
        f"Cluster state of release team/app.v2 has drifted from the desired state:\n{CHANGES}",
    ),
    (
        *(Happening.NO_DRIFT, "Drifted", "False", "NoDriftDetected", None),
        "No drift detected against the cluster state",
    ),
    (
        *(Happening.DRIFT_CORRECTED, "", "Unknown", "DriftCorrected", "info"),
        f"Cluster state of release team/app.v2 has been corrected:\n{CHANGES}",
    ),
    (
        *(Happening.DRIFT_CORRECTION_FAILED, "", "Unknown", "DriftCorrectionFailed", "error"),
        "Failed to partially correct cluster state of release team/app.v2:\nit broke {here}",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].name)
def test_what_happened_is_told_as_flux_tells_it(
    row: tuple[Happening, str, str, str, str | None, str],
) -> None:
    told = outcomes.told(row[0], **WORDS)

    assert (told.condition, told.status, told.reason, told.event, told.message) == row[1:]


def test_there_is_a_row_for_every_happening() -> None:
    assert [row[0] for row in ROWS] == list(outcomes.ROWS) == list(Happening)


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        (None, "no test hooks"),
        ({}, "no test hooks"),
        ({"a": {}}, "1 test hook completed successfully"),
        ({"a": {}, "b": {}}, "2 test hooks completed successfully"),
    ],
)
def test_tests_are_counted(hooks: Json | None, expected: str) -> None:
    assert outcomes.tests_told(snapshot(test_hooks=hooks)) == expected


def test_events_tell_the_revision_and_the_values() -> None:
    found = outcomes.metadata(
        revision="1.0.0+0123", token="sha256:1", app_version="7", oci_digest="sha256:2"
    )

    assert found == {
        "helm.toolkit.fluxcd.io/revision": "1.0.0+0123",
        "helm.toolkit.fluxcd.io/token": "sha256:1",
        "helm.toolkit.fluxcd.io/app-version": "7",
        "helm.toolkit.fluxcd.io/oci-digest": "sha256:2",
    }
    assert outcomes.metadata(revision="1", token="") == {"helm.toolkit.fluxcd.io/revision": "1"}


COUNTED: Json = {"failures": 3, "installFailures": 1, "upgradeFailures": 2}
IGNORED: Json = {"test": {"enable": True, "ignoreFailures": True}}


@pytest.mark.parametrize(
    ("happening", "spec", "action", "recorded", "expected"),
    [
        (Happening.INSTALL_FAILED, {}, "install", True, {"failures": 4, "installFailures": 2}),
        (Happening.INSTALL_FAILED, {}, "install", False, {"failures": 4}),
        (Happening.UPGRADE_FAILED, {}, "upgrade", True, {"failures": 4, "upgradeFailures": 3}),
        (Happening.UPGRADE_FAILED, {}, "upgrade", False, {"failures": 4}),
        (Happening.TEST_FAILED, {}, "install", True, {"failures": 4, "installFailures": 2}),
        (Happening.TEST_FAILED, {}, "upgrade", True, {"failures": 4, "upgradeFailures": 3}),
        (Happening.TEST_FAILED, {}, "upgrade", False, {"failures": 4}),
        (Happening.TEST_FAILED, IGNORED, "upgrade", True, {"failures": 4}),
        (Happening.ROLLBACK_FAILED, {}, "upgrade", True, {"failures": 4}),
        (Happening.UNLOCK_FAILED, {}, "upgrade", True, {"failures": 4}),
    ],
)
def test_a_failure_counts_against_what_failed(
    happening: Happening, spec: Json, action: str, expected: Json, *, recorded: bool
) -> None:
    obj = release(spec=spec, status={**COUNTED, "lastAttemptedReleaseAction": action})

    assert outcomes.failed(obj, happening, recorded=recorded) == expected
