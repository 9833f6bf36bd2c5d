"""What a release is, of what was observed: Flux's states (``internal/reconcile/state.go``). Pure.

The storage of Helm is the truth about the release, ``status.history`` about whether it is ours.
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
    """What a release can be."""

    ABSENT = "Absent"
    """There is no release, or it was uninstalled."""
    UNMANAGED = "Unmanaged"
    """There is one that this object did not make, or that another client has changed."""
    OUT_OF_SYNC = "OutOfSync"
    """It was made with another chart, other values or other changes of the rendered objects."""
    LOCKED = "Locked"
    """An action on it was never finished."""
    DRIFTED = "Drifted"
    """Objects in the cluster differ from it."""
    UNTESTED = "Untested"
    """Its tests have not run."""
    FAILED = "Failed"
    """It failed, or a test of it."""
    IN_SYNC = "InSync"
    """It is as desired."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A state, and why; the reason goes to the log."""

    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What is to be released; the version of the chart holds the digest of its artifact, if any."""

    chart_name: str
    chart_version: str
    config_digest: str
    app_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a decision needs of the newest record in storage.

    ``ours`` tells whether it is what the newest snapshot was made of.
    """

    status: str
    chart_name: str
    chart_version: str
    ours: bool


def seen(obj: HelmRelease, found: Record | None) -> Seen | None:
    """Return what a decision needs of a record."""
    if found is None:
        return None
    current, chart = snapshots.latest(obj.status.history), found.metadata
    return Seen(
        status=found.info.status,
        chart_name=chart.name,
        chart_version=chart.version,
        ours=current is not None and record.matches(current, found),
    )


class StateError(TransientError):
    """The state of the release cannot be told."""

    default_reason = "StateError"


def observe(
    obj: HelmRelease, found: Seen | None, desired: Desired, *, drifted: bool = False
) -> Observed:
    """Return the state of the release.

    ``found`` is of the newest record of the release in storage. ``drifted`` tells whether the
    cluster differs from it; it counts where the spec asks for it and all else is as desired.

    Raises:
        StateError: the record has a status in which nothing can be done.
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
    """Return what the record alone tells; None for one of ours that is deployed."""
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
    """Return the digest of the post-renderers; empty without any."""
    return digest.of_json(obj.spec.post_renderers) if obj.spec.post_renderers else ""


def common_metadata_digest(obj: HelmRelease) -> str:
    """Return the digest of the common metadata; empty without any."""
    return digest.of_json(obj.spec.common_metadata) if obj.spec.common_metadata else ""
