"""Wait for the objects of a release without occupying a worker.

An action ends when its objects are applied. Then the reconciliation ends with Ready=Unknown, and
events of the watches start the reconciliation that finishes the action. The conditions also say
that an action is in progress, so a new process continues the wait (``resumed``). If objects fail,
or are not ready in time, the release is marked as failed in Helm's storage, as Helm does it.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from controllers.applying import waiting
from controllers.applying.waiting import Wait
from controllers.helm.deciding import outcomes, policies, snapshots
from controllers.helm.deciding.decisions import Action
from controllers.helm.deciding.orders import owner_labels
from controllers.helm.running.memory import Pending
from controllers.helm.running.work import Work, attempted
from crds.helm import HelmRelease
from crds.helm_actions import Rollback, SameAction
from toolkit.apply import prune, wait
from toolkit.apply.wait import Verdict
from toolkit.objects import Json, ObjectRef, dig, ref_of

State = Literal["waiting", "ready", "failed"]

_LOOK_AGAIN_SECONDS: Final = 2.0
_DEADLINE: Final = "context deadline exceeded"
_JOB: Final = ("batch", "Job")
_LEGACY: Final = frozenset(
    {
        *(("", kind) for kind in ("Pod", "PersistentVolumeClaim", "Service")),
        ("", "ReplicationController"),
        *(("apps", kind) for kind in ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")),
        _JOB,
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
"""Groups and kinds that Helm 3 waits for (``pkg/kube/ready.go``)."""


def awaited(obj: HelmRelease, action: Action, objects: Sequence[Json]) -> tuple[ObjectRef, ...]:
    """Return the objects of a release to wait for; none if the spec disables the wait."""
    said = _said(obj, action)
    if said is not None and said.disable_wait:
        return ()
    refs = [ref_of(each) for each in objects]
    strategy = obj.spec.wait_strategy
    if strategy is not None and strategy.name == "legacy":
        refs = [ref for ref in refs if ref.gvk.group_kind in _LEGACY]
    if said is not None and said.disable_wait_for_jobs:
        refs = [ref for ref in refs if ref.gvk.group_kind != _JOB]
    own = ("helm.toolkit.fluxcd.io", "HelmRelease", obj.metadata.namespace, obj.metadata.name)
    return tuple(ref for ref in refs if ref.identity != own)


def begin(work: Work, pending: Pending, objects: Sequence[Json]) -> None:
    """Begin to wait for those objects of a release whose health counts."""
    labels = owner_labels(work.obj).items()
    end(work)
    pending.wait = Wait(
        awaited=awaited(work.obj, pending.action, objects),
        applied=frozenset(
            ref_of(each).identity
            for each in objects
            if labels <= dig(each, "metadata", "labels", default={}).items()
        ),
        may_vanish=wait.vanishing(objects),
        timeout=pending.seconds,
        fail_fast=True,
    )


async def look(work: Work, pending: Pending) -> tuple[State, str]:
    """Return the state of the wait, and the reason if it failed."""
    if pending.going:
        return await _look_for_gone(work, pending)
    if pending.wait is None or not pending.wait.awaited:
        return "ready", ""
    verdict = waiting.verdict(work.cluster, work.draft.rec.key, pending.wait)
    if verdict.state == "waiting":
        return "waiting", ""
    end(work)
    return ("ready", "") if verdict.state == "healthy" else ("failed", _failure(verdict))


def end(work: Work) -> None:
    """End the wait."""
    waiting.end(work.cluster, work.draft.rec.key)


def look_again(work: Work, pending: Pending) -> float | None:
    """Return the seconds until the next look; None if the watches start a reconciliation."""
    if pending.wait is None or pending.going:
        return _LOOK_AGAIN_SECONDS
    return waiting.look_again(work.cluster, pending.wait.awaited)


def resumed(obj: HelmRelease, conditions: Sequence[str]) -> Pending | None:
    """Return the wait that an earlier process began, or None.

    ``conditions`` are the types of conditions that are Unknown because an action is in progress.
    """
    latest = snapshots.latest(obj.status.history)
    if latest is None:
        return None
    if outcomes.REMEDIATED in conditions and latest.action == Action.ROLLBACK.value:
        action = Action.ROLLBACK
    elif outcomes.RELEASED in conditions and obj.status.last_attempted_release_action:
        action = Action(obj.status.last_attempted_release_action)
    else:
        return None
    passed = _since(latest.last_deployed)
    status = obj.status
    return Pending(
        action=action,
        attempted=attempted(
            status.last_attempted_revision, status.last_attempted_config_digest, obj
        ),
        seconds=max(0.0, policies.timeout_seconds(obj, action.value) - passed),
        done=(action,),
    )


async def _look_for_gone(work: Work, pending: Pending) -> tuple[State, str]:
    left = await prune.remaining(work.target.client, pending.going)
    if not left:
        return "ready", ""
    if time.monotonic() < pending.seconds:
        return "waiting", ""
    named = ", ".join(f"{ref} is still there" for ref in left)
    return "failed", f"{named}\n{_DEADLINE}"


def _failure(verdict: Verdict) -> str:
    """Return why the objects are not ready, in Helm's words (``pkg/kube/statuswait.go``)."""
    lines = [
        f"resource {ref} not ready. status: {found.status.value}, message: {found.message}"
        for ref, found in verdict.pending
    ]
    return "\n".join([*lines, _DEADLINE] if verdict.state == "timeout" else lines)


def _said(obj: HelmRelease, action: Action) -> SameAction | Rollback | None:
    said = {
        Action.INSTALL: obj.spec.install,
        Action.UPGRADE: obj.spec.upgrade,
        Action.ROLLBACK: obj.spec.rollback,
    }
    return said.get(action)


def _since(timestamp: str) -> float:
    """Return the seconds since a time of the status; all of them if it cannot be read."""
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return math.inf
    return (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
