"""The condition, the event and the failure counters after an action. Pure.

Reasons and texts are Flux's (helm-controller ``internal/reconcile``), because users' alerts match
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from controllers.applying import denials
from controllers.helm.deciding import policies
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.objects import Json

RELEASED: Final = "Released"
TESTED: Final = "TestSuccess"
REMEDIATED: Final = "Remediated"
DRIFTED: Final = "Drifted"
VALIDATED: Final = "ValuesValidated"
CONDITIONS: Final = (RELEASED, TESTED, REMEDIATED, DRIFTED, VALIDATED)
"""Conditions of a HelmRelease besides Ready, Reconciling and Stalled."""

GROUP: Final = "helm.toolkit.fluxcd.io"
LOGS: Final = "\n\nLast Helm logs:\n\n"
"""Separates the message from Helm's log in the event of a failure."""

Truth: TypeAlias = Literal["True", "False", "Unknown"]
Severity: TypeAlias = Literal["info", "error"]


class Happening(Enum):
    """The results of actions, each with a condition or an event."""

    INSTALLED = "installed"
    INSTALL_FAILED = "install failed"
    UPGRADED = "upgraded"
    UPGRADE_FAILED = "upgrade failed"
    AWAITS_TESTS = "awaits tests"
    TESTED = "tested"
    TEST_FAILED = "test failed"
    ROLLED_BACK = "rolled back"
    ROLLBACK_FAILED = "rollback failed"
    REMEDIATED_BY_UNINSTALL = "remediated by uninstall"
    UNINSTALL_REMEDIATION_FAILED = "uninstall remediation failed"
    UNINSTALLED = "uninstalled"
    UNINSTALL_FAILED = "uninstall failed"
    UNINSTALL_NOT_FOUND = "nothing to uninstall"
    UNINSTALLED_BEFORE = "uninstalled before"
    UNLOCKED = "unlocked"
    UNLOCK_FAILED = "unlock failed"
    DRIFT = "drift"
    NO_DRIFT = "no drift"
    DRIFT_CORRECTED = "drift corrected"
    DRIFT_CORRECTION_FAILED = "drift correction failed"


@dataclass(frozen=True, slots=True)
class Row:
    """The condition and the event of one result; an empty condition or event is not written.

    ``text`` has placeholders in braces.
    """

    condition: str
    status: Truth
    reason: str
    text: str
    event: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A row with the message filled in."""

    condition: str
    status: Truth
    reason: str
    message: str
    event: Severity | None


_FOR: Final = "for release {release} with chart {chart}"
_WANTED: Final = "for release {target} with chart {wanted}: {error}"
_NOTHING: Final[Truth] = "Unknown"

ROWS: Final[Mapping[Happening, Row]] = MappingProxyType(
    {
        Happening.INSTALLED: Row(
            RELEASED, "True", "InstallSucceeded", f"Helm install succeeded {_FOR}", "info"
        ),
        Happening.INSTALL_FAILED: Row(
            RELEASED, "False", "InstallFailed", f"Helm install failed {_WANTED}", "error"
        ),
        Happening.UPGRADED: Row(
            RELEASED, "True", "UpgradeSucceeded", f"Helm upgrade succeeded {_FOR}", "info"
        ),
        Happening.UPGRADE_FAILED: Row(
            RELEASED, "False", "UpgradeFailed", f"Helm upgrade failed {_WANTED}", "error"
        ),
        Happening.AWAITS_TESTS: Row(
            TESTED,
            "Unknown",
            "AwaitingTests",
            "Helm release {release} with chart {chart} is awaiting tests",
        ),
        Happening.TESTED: Row(
            TESTED, "True", "TestSucceeded", f"Helm test succeeded {_FOR}: {{tests}}", "info"
        ),
        Happening.TEST_FAILED: Row(
            TESTED, "False", "TestFailed", f"Helm test failed {_FOR}: {{error}}", "error"
        ),
        Happening.ROLLED_BACK: Row(
            REMEDIATED,
            "True",
            "RollbackSucceeded",
            "Helm rollback to previous release {release} with chart {chart} succeeded",
            "info",
        ),
        Happening.ROLLBACK_FAILED: Row(
            REMEDIATED,
            "False",
            "RollbackFailed",
            "Helm rollback to previous release {release} with chart {chart} failed: {error}",
            "error",
        ),
        Happening.REMEDIATED_BY_UNINSTALL: Row(
            REMEDIATED,
            "True",
            "UninstallSucceeded",
            f"Helm uninstall remediation {_FOR} succeeded",
            "info",
        ),
        Happening.UNINSTALL_REMEDIATION_FAILED: Row(
            REMEDIATED,
            "False",
            "UninstallFailed",
            f"Helm uninstall remediation {_FOR} failed: {{error}}",
            "error",
        ),
        Happening.UNINSTALLED: Row(
            RELEASED, "False", "UninstallSucceeded", f"Helm uninstall succeeded {_FOR}", "info"
        ),
        Happening.UNINSTALL_FAILED: Row(
            RELEASED,
            "False",
            "UninstallFailed",
            f"Helm uninstall failed {_FOR}: {{error}}",
            "error",
        ),
        Happening.UNINSTALL_NOT_FOUND: Row(
            RELEASED,
            "False",
            "UninstallSucceeded",
            "Release {release} was not found, assuming it is uninstalled",
        ),
        Happening.UNINSTALLED_BEFORE: Row(
            RELEASED, "False", "UninstallSucceeded", "Release {release} was already uninstalled"
        ),
        Happening.UNLOCKED: Row(
            RELEASED,
            "False",
            "PendingRelease",
            "Unlocked Helm release {release} with chart {chart} in {state} state",
            "info",
        ),
        Happening.UNLOCK_FAILED: Row(
            RELEASED,
            "False",
            "PendingRelease",
            "Unlock of Helm release {release} with chart {chart} in {state} state failed: {error}",
            "error",
        ),
        Happening.DRIFT: Row(
            DRIFTED,
            "True",
            "DriftDetected",
            "Cluster state of release {release} has drifted from the desired state:\n{changes}",
            "error",
        ),
        Happening.NO_DRIFT: Row(
            DRIFTED, "False", "NoDriftDetected", "No drift detected against the cluster state"
        ),
        Happening.DRIFT_CORRECTED: Row(
            "",
            _NOTHING,
            "DriftCorrected",
            "Cluster state of release {release} has been corrected:\n{changes}",
            "info",
        ),
        Happening.DRIFT_CORRECTION_FAILED: Row(
            "",
            _NOTHING,
            "DriftCorrectionFailed",
            "Failed to {partially}correct cluster state of release {release}:\n{error}{corrected}",
            "error",
        ),
    }
)


def told(happening: Happening, **words: str) -> Told:
    """Return the row of a result with its message; ``words`` fill the placeholders."""
    row = ROWS[happening]
    given = {name: word.strip() if name == "error" else word for name, word in words.items()}
    return Told(
        condition=row.condition,
        status=row.status,
        reason=row.reason,
        message=row.text.format(**given),
        event=row.event,
    )


def explained(found: Told) -> Told:
    """Return a failure with the reason AccessDenied and the remedy if RBAC is its cause.

    Objects that drifted keep their reason, because only some of them may be unreadable.
    """
    if found.event != "error" or not denials.denied(found.message):
        return found
    reason = found.reason if found.status == "True" else denials.REASON
    return replace(found, reason=reason, message=denials.explained(found.message))


def tests_told(snapshot: Snapshot) -> str:
    """Return the number of successful tests as a phrase for messages."""
    count = len(snapshot.test_hooks or {})
    if not count:
        return "no test hooks"
    return f"{count} test hook{'s' if count > 1 else ''} completed successfully"


def metadata(*, revision: str, token: str, app_version: str = "", oci_digest: str = "") -> Json:
    """Return the metadata of an event; ``token`` is the digest of the values."""
    found = {
        "revision": revision,
        "token": token,
        "app-version": app_version,
        "oci-digest": oci_digest,
    }
    return {f"{GROUP}/{name}": value for name, value in found.items() if value}


def failed(obj: HelmRelease, happening: Happening, *, recorded: bool) -> Json:
    """Return the counters of the status after a failure.

    ``failures`` counts every failure. A failed installation or upgrade uses up one of its retries
    only if Helm ``recorded`` a release, because otherwise there is nothing to remediate. A failed
    test uses up a retry of the action that it tested, unless the spec ignores test failures.
    """
    status = obj.status
    counters: Json = {"failures": status.failures + 1}
    if not recorded:
        return counters
    action = {
        Happening.INSTALL_FAILED: "install",
        Happening.UPGRADE_FAILED: "upgrade",
    }.get(happening)
    if happening is Happening.TEST_FAILED:
        remediation = policies.active(obj)
        if remediation and not remediation.ignores_tests:
            action = status.last_attempted_release_action
    if action == "install":
        counters["installFailures"] = status.install_failures + 1
    elif action == "upgrade":
        counters["upgradeFailures"] = status.upgrade_failures + 1
    return counters


CLEARED: Final[Mapping[str, int]] = MappingProxyType(
    {"failures": 0, "installFailures": 0, "upgradeFailures": 0}
)
"""The counters after a reset."""
