"""The state of a release: Flux's states (``internal/reconcile/state.go``). Pure.

Helm's storage is the source of truth for the release. ``status.history`` tells whether this
HelmRelease made it.
"""

from dataclasses import dataclass
from enum import Enum

from controllers.helm.deciding import policies, snapshots
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.errors import TransientError
from toolkit.release import digest, record
from toolkit.release.record import Record


class State(Enum):
    """The state of a release."""

    ABSENT = "Absent"
    """There is no release, or it was uninstalled."""
    UNMANAGED = "Unmanaged"
    """This HelmRelease did not make the release, or another client has changed it."""
    OUT_OF_SYNC = "OutOfSync"
    """The release has another chart, other values, post-renderers or common metadata."""
    LOCKED = "Locked"
    """An action was interrupted: the record has a pending status."""
    DRIFTED = "Drifted"
    """Objects in the cluster differ from the release."""
    UNTESTED = "Untested"
    """The tests of the release have not run."""
    FAILED = "Failed"
    """The release or one of its tests failed."""
    IN_SYNC = "InSync"
    """The release is as desired."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A state, and the reason for it, which goes to the log."""

    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The desired release; ``chart_version`` contains the digest of an OCI artifact."""

    chart_name: str
    chart_version: str
    config_digest: str
    app_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The fields of the newest record in storage that a decision needs.

    ``ours`` tells whether the newest entry of the history was made from this record. ``since`` is
    the time of its last action, by the clock of the client that ran it.
    """

    status: str
    chart_name: str
    chart_version: str
    ours: bool
    version: int = 0
    since: str = ""


def seen(obj: HelmRelease, found: Record | None) -> Seen | None:
    """Return the fields of a record that a decision needs; None without a record."""
    if found is None:
        return None
    current, chart = snapshots.latest(obj.status.history), found.metadata
    return Seen(
        status=found.info.status,
        chart_name=chart.name,
        chart_version=chart.version,
        ours=current is not None and record.matches(current, found),
        version=found.version,
        since=found.info.deleted or found.info.last_deployed or "",
    )


class StateError(TransientError):
    """The state of the release cannot be determined."""

    default_reason = "StateError"


def observe(
    obj: HelmRelease, found: Seen | None, desired: Desired, *, drifted: bool = False
) -> Observed:
    """Return the state of the release.

    ``found`` is the newest record of the release in storage. ``drifted`` tells whether the cluster
    differs from it. Drift counts only if the spec enables its detection and the release is
    otherwise as desired.

    Raises:
        StateError: the record has a status for which there is no action.
    """
    if found is None:
        return Observed(State.ABSENT, "no release in storage for object")
    current = snapshots.latest(obj.status.history)
    if stored := _stored(current, found):
        return stored
    if current is None:
        return Observed(State.UNMANAGED, "found existing release in storage")
    return (
        _out_of_sync(obj, found, current, desired)
        or _tests(obj, current)
        or _drift(obj, drifted=drifted)
        or Observed(State.IN_SYNC)
    )


def _stored(current: Snapshot | None, found: Seen) -> Observed | None:
    """Return the state if the status of the record alone determines it, else None."""
    status = found.status
    disowned = current is not None and not found.ours
    if status in record.PENDING:
        return Observed(State.LOCKED, f"release with status '{status}'")
    if disowned:
        return Observed(State.UNMANAGED, "release not observed to be made for object")
    if status == record.UNINSTALLED:
        return Observed(State.ABSENT, "found uninstalled release in storage")
    if current is None or status == record.DEPLOYED:
        return None
    if status == record.FAILED:
        return Observed(State.FAILED)
    raise StateError(f"unable to determine state for release with status '{status}'")


def _out_of_sync(
    obj: HelmRelease, found: Seen, current: Snapshot, desired: Desired
) -> Observed | None:
    chart = (found.chart_name, found.chart_version)
    if chart != (desired.chart_name, desired.chart_version):
        return Observed(State.OUT_OF_SYNC, "release chart changed")
    if current.config_digest != desired.config_digest:
        return Observed(State.OUT_OF_SYNC, "release config values changed")
    if obj.status.observed_generation == obj.metadata.generation:
        return None
    if post_renderers_digest(obj) != obj.status.observed_post_renderers_digest:
        return Observed(State.OUT_OF_SYNC, "postrenderers digest has changed")
    if common_metadata_digest(obj) != obj.status.observed_common_metadata_digest:
        return Observed(State.OUT_OF_SYNC, "common metadata digest has changed")
    return None


def _tests(obj: HelmRelease, current: Snapshot) -> Observed | None:
    if not policies.tests(obj):
        return None
    if not snapshots.tested(current):
        return Observed(State.UNTESTED)
    remediation = policies.active(obj)
    if remediation and not remediation.ignores_tests and snapshots.failed_test(current):
        return Observed(State.FAILED, "release has test in failed phase")
    return None


def _drift(obj: HelmRelease, *, drifted: bool) -> Observed | None:
    if drifted and policies.drift_mode(obj) != "disabled":
        return Observed(State.DRIFTED)
    return None


def post_renderers_digest(obj: HelmRelease) -> str:
    """Return the digest of the post-renderers; empty if there are none."""
    return digest.of_json(obj.spec.post_renderers) if obj.spec.post_renderers else ""


def common_metadata_digest(obj: HelmRelease) -> str:
    """Return the digest of the common metadata; empty if there is none."""
    return digest.of_json(obj.spec.common_metadata) if obj.spec.common_metadata else ""
