"""The health rules of the built-in kinds: one function per kind.

The rules and texts are those of kstatus (``cli-utils/pkg/kstatus/status/core.go``), with the two
changes of Flux: a Job is in progress until it has completed, and an unschedulable Pod is in
progress until the caller's timeout, because a node may still be added.

Pure functions over the object and its conditions. ``health`` has the rules for deletion,
generations and the conditions common to all kinds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from toolkit.objects import Json, dig

Conditions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict in kstatus' words."""

    status: Literal["Current", "InProgress", "Failed"]
    message: str


def conditions_of(obj: Json) -> Conditions:
    """Return the object's conditions by type."""
    listed = dig(obj, "status", "conditions", default=())
    return {
        str(one.get("type")): one
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    }


def is_true(conditions: Conditions, type_: str) -> bool:
    """Tell whether the condition exists and is True."""
    return conditions.get(type_, {}).get("status") == "True"


def _deployment(obj: Json, conditions: Conditions) -> Judged:
    progressing = conditions.get("Progressing", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return _failed("Progress deadline exceeded")
    wanted = _count(obj, "spec", "replicas", default=1)
    replicas, updated, ready, available = _status_counts(
        obj, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"
    )
    unlimited = dig(obj, "spec", "progressDeadlineSeconds") in (None, 2**31 - 1)
    rolled_out = unlimited or (
        progressing.get("status") == "True"
        and progressing.get("reason") == "NewReplicaSetAvailable"
    )
    return _first_unmet(
        (replicas >= wanted, f"replicas: {replicas}/{wanted}"),
        (updated >= wanted, f"Updated: {updated}/{wanted}"),
        (replicas <= wanted, f"Pending termination: {replicas - wanted}"),
        (available >= updated, f"Available: {available}/{updated}"),
        (ready >= wanted, f"Ready: {ready}/{wanted}"),
        (rolled_out, "ReplicaSet not Available"),
        (is_true(conditions, "Available"), "Deployment not Available"),
    ) or _current(f"Deployment is available. Replicas: {replicas}")


def _replica_set(obj: Json, conditions: Conditions) -> Judged:
    if is_true(conditions, "ReplicaFailure"):
        return _progress("Replica Failure condition. Check Pods")
    wanted = _count(obj, "spec", "replicas", default=1)
    replicas, labelled, ready, available = _status_counts(
        obj, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"
    )
    return _first_unmet(
        (labelled >= wanted, f"Labelled: {labelled}/{wanted}"),
        (available >= wanted, f"Available: {available}/{wanted}"),
        (ready >= wanted, f"Ready: {ready}/{wanted}"),
        (replicas <= wanted, f"Pending termination: {replicas - wanted}"),
    ) or _current(f"ReplicaSet is available. Replicas: {replicas}")


def _stateful_set(obj: Json, _: Conditions) -> Judged:
    if dig(obj, "spec", "updateStrategy", "type") == "OnDelete":
        return _current("StatefulSet is using the ondelete update strategy")
    wanted = _count(obj, "spec", "replicas", default=1)
    replicas, updated, ready, current = _status_counts(
        obj, "replicas", "updatedReplicas", "readyReplicas", "currentReplicas"
    )
    unmet = _first_unmet(
        (replicas >= wanted, f"Replicas: {replicas}/{wanted}"),
        (ready >= wanted, f"Ready: {ready}/{wanted}"),
        (replicas <= wanted, f"Pending termination: {replicas - wanted}"),
    )
    if unmet:
        return unmet
    partition = dig(obj, "spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None:
        goal = wanted - int(partition)
        if updated < goal:
            return _progress(f"updated: {updated}/{goal}")
        return _current(f"Partition rollout complete. updated: {updated}")
    same = dig(obj, "status", "currentRevision") == dig(obj, "status", "updateRevision")
    return _first_unmet(
        (current >= wanted, f"current: {current}/{wanted}"),
        (same, "Waiting for updated revision to match current"),
    ) or _current(f"All replicas scheduled as expected. Replicas: {replicas}")


def _daemon_set(obj: Json, _: Conditions) -> Judged:
    if dig(obj, "status", "observedGeneration") is None:
        return _progress("Controller has not observed the DaemonSet yet")
    wanted, scheduled, updated, available, ready = _status_counts(
        obj,
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberReady",
    )
    return _first_unmet(
        (scheduled >= wanted, f"Current: {scheduled}/{wanted}"),
        (updated >= wanted, f"Updated: {updated}/{wanted}"),
        (available >= wanted, f"Available: {available}/{wanted}"),
        (ready >= wanted, f"Ready: {ready}/{wanted}"),
    ) or _current(f"All replicas scheduled as expected. Replicas: {wanted}")


def _claim(obj: Json, _: Conditions) -> Judged:
    phase = dig(obj, "status", "phase", default="unknown")
    return _current("PVC is Bound") if phase == "Bound" else _progress(f"PVC is {phase}")


def _service(obj: Json, _: Conditions) -> Judged:
    balanced = dig(obj, "spec", "type") == "LoadBalancer"
    if balanced and not dig(obj, "spec", "clusterIP"):
        return _progress("ClusterIP not set. Service type: LoadBalancer")
    return _current("Service is ready")


def _pod(obj: Json, conditions: Conditions) -> Judged:
    phase = dig(obj, "status", "phase", default="")
    if phase == "Succeeded":
        return _current("Pod has completed successfully")
    if phase == "Failed":
        return _failed("Pod has completed, but not successfully")
    if phase == "Running" and is_true(conditions, "Ready"):
        return _current("Pod is Ready")
    crashing = [
        str(one.get("name"))
        for part in ("initContainerStatuses", "containerStatuses")
        for one in dig(obj, "status", part, default=())
        if dig(one, "state", "waiting", "reason") == "CrashLoopBackOff"
    ]
    if crashing:
        return _failed(f"Containers in CrashLoop state: {','.join(crashing)}")
    if phase == "Running":
        return _progress("Pod is running but is not Ready")
    return _progress("Pod is in the Pending phase")


def _budget(_obj: Json, _: Conditions) -> Judged:
    return _current("AllowedDisruptions has been computed.")


def _job(obj: Json, conditions: Conditions) -> Judged:
    parallelism = _count(obj, "spec", "parallelism", default=1)
    completions = _count(obj, "spec", "completions", default=parallelism)
    succeeded, active, failed = _status_counts(obj, "succeeded", "active", "failed")
    if is_true(conditions, "Complete"):
        return _current(f"Job Completed. succeeded: {succeeded}/{completions}")
    if is_true(conditions, "Failed"):
        return _failed(f"Job Failed. failed: {failed}/{completions}")
    if is_true(conditions, "Suspended"):
        return _current("Job is suspended")
    if not dig(obj, "status", "startTime"):
        return _progress("Job not started")
    return _progress(f"Job in progress. success:{succeeded}, active: {active}, failed: {failed}")


def _definition(_obj: Json, conditions: Conditions) -> Judged:
    for type_ in ("NamesAccepted", "Established"):
        condition = conditions.get(type_, {})
        if condition.get("status") == "False" and condition.get("reason") != "Installing":
            return _failed(str(condition.get("message") or f"{type_} is False"))
    if is_true(conditions, "Established"):
        return _current("CRD is established")
    return _progress("Install in progress")


BY_KIND: Final[Mapping[tuple[str, str], Callable[[Json, Conditions], Judged]]] = MappingProxyType(
    {
        ("apps", "Deployment"): _deployment,
        ("apps", "ReplicaSet"): _replica_set,
        ("apps", "StatefulSet"): _stateful_set,
        ("apps", "DaemonSet"): _daemon_set,
        ("", "PersistentVolumeClaim"): _claim,
        ("", "Service"): _service,
        ("", "Pod"): _pod,
        ("policy", "PodDisruptionBudget"): _budget,
        ("batch", "Job"): _job,
        ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    }
)


def _first_unmet(*goals: tuple[bool, str]) -> Judged | None:
    return next((_progress(message) for met, message in goals if not met), None)


def _count(obj: Json, *path: str, default: int = 0) -> int:
    value = dig(obj, *path, default=default)
    return value if isinstance(value, int) else default


def _status_counts(obj: Json, *names: str) -> tuple[int, ...]:
    return tuple(_count(obj, "status", name) for name in names)


def _current(message: str) -> Judged:
    return Judged("Current", message)


def _progress(message: str) -> Judged:
    return Judged("InProgress", message)


def _failed(message: str) -> Judged:
    return Judged("Failed", message)
