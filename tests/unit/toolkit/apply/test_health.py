"""kstatus for the built-in kinds, and CEL rules."""

from typing import Any

import pytest

from toolkit import errors
from toolkit.apply import health
from toolkit.apply.health import Status
from toolkit.objects import Json

CURRENT, PROGRESS, FAILED = Status.CURRENT, Status.IN_PROGRESS, Status.FAILED


def _obj(kind: str, api: str = "v1", *, spec: Any = None, **status: Any) -> Json:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "spec": spec or {},
        "status": status,
    }


def _is(type_: str, status: str = "True", reason: str = "", message: str = "") -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _deployment(**status: Any) -> Json:
    counts = {
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "conditions": [_is("Available"), _is("Progressing", reason="NewReplicaSetAvailable")],
    }
    spec = {"replicas": 2, "progressDeadlineSeconds": 600}
    return _obj("Deployment", "apps/v1", spec=spec, **{**counts, **status})


def _set(kind: str, spec: Json, **status: Any) -> Json:
    return _obj(kind, "apps/v1", spec=spec, **status)


READY = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentReplicas": 2}
DAEMONS = {
    "observedGeneration": 2,
    "desiredNumberScheduled": 2,
    "currentNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberAvailable": 2,
    "numberReady": 2,
}

CASES: list[tuple[str, Json, Status]] = [
    ("config map", _obj("ConfigMap"), CURRENT),
    ("custom kind without conditions", _obj("Widget", "example.com/v1"), CURRENT),
    ("ready", _obj("Widget", "x/v1", conditions=[_is("Ready")]), CURRENT),
    ("not ready", _obj("Widget", "x/v1", conditions=[_is("Ready", "False")]), PROGRESS),
    ("ready unknown", _obj("Widget", "x/v1", conditions=[_is("Ready", "Unknown")]), PROGRESS),
    (
        "reconciling",
        _obj("Widget", "x/v1", conditions=[_is("Ready"), _is("Reconciling")]),
        PROGRESS,
    ),
    ("stalled", _obj("Widget", "x/v1", conditions=[_is("Ready"), _is("Stalled")]), FAILED),
    (
        "flux object not yet seen",
        _obj("Kustomization", "kustomize.toolkit.fluxcd.io/v1", observedGeneration=-1),
        PROGRESS,
    ),
    ("generation not seen", _deployment(observedGeneration=1), PROGRESS),
    ("deployment", _deployment(), CURRENT),
    ("deployment just made", _obj("Deployment", "apps/v1"), PROGRESS),
    ("deployment too few", _deployment(replicas=1), PROGRESS),
    ("deployment old pods", _deployment(updatedReplicas=1), PROGRESS),
    ("deployment pods going", _deployment(replicas=3), PROGRESS),
    ("deployment unavailable", _deployment(availableReplicas=1), PROGRESS),
    ("deployment not ready", _deployment(readyReplicas=1), PROGRESS),
    (
        "deployment rolling out",
        _deployment(conditions=[_is("Available"), _is("Progressing", reason="ReplicaSetUpdated")]),
        PROGRESS,
    ),
    (
        "deployment given up",
        _deployment(conditions=[_is("Progressing", "False", "ProgressDeadlineExceeded")]),
        FAILED,
    ),
    (
        "replica set",
        _set(
            "ReplicaSet",
            {"replicas": 2},
            replicas=2,
            fullyLabeledReplicas=2,
            readyReplicas=2,
            availableReplicas=2,
        ),
        CURRENT,
    ),
    (
        "replica set failing",
        _set("ReplicaSet", {"replicas": 0}, conditions=[_is("ReplicaFailure")]),
        PROGRESS,
    ),
    ("stateful set", _set("StatefulSet", {"replicas": 2}, **READY), CURRENT),
    (
        "stateful set between revisions",
        _set("StatefulSet", {"replicas": 2}, **READY, currentRevision="a", updateRevision="b"),
        PROGRESS,
    ),
    (
        "stateful set partitioned",
        _set(
            "StatefulSet",
            {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            **{**READY, "updatedReplicas": 1},
            currentRevision="a",
            updateRevision="b",
        ),
        CURRENT,
    ),
    (
        "stateful set on delete",
        _set("StatefulSet", {"replicas": 2, "updateStrategy": {"type": "OnDelete"}}),
        CURRENT,
    ),
    ("daemon set", _set("DaemonSet", {}, **DAEMONS), CURRENT),
    ("daemon set not observed", _set("DaemonSet", {}), PROGRESS),
    ("daemon set not ready", _set("DaemonSet", {}, **{**DAEMONS, "numberReady": 1}), PROGRESS),
    ("claim bound", _obj("PersistentVolumeClaim", phase="Bound"), CURRENT),
    ("claim pending", _obj("PersistentVolumeClaim", phase="Pending"), PROGRESS),
    ("service", _obj("Service", spec={"type": "ClusterIP"}), CURRENT),
    ("balancer without address", _obj("Service", spec={"type": "LoadBalancer"}), PROGRESS),
    (
        "balancer",
        _obj("Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
        CURRENT,
    ),
    ("pod ready", _obj("Pod", phase="Running", conditions=[_is("Ready")]), CURRENT),
    ("pod not ready", _obj("Pod", phase="Running"), PROGRESS),
    ("pod done", _obj("Pod", phase="Succeeded", conditions=[_is("Ready", "False")]), CURRENT),
    ("pod failed", _obj("Pod", phase="Failed"), FAILED),
    ("pod pending", _obj("Pod", phase="Pending"), PROGRESS),
    (
        "pod crashing",
        _obj(
            "Pod",
            phase="Running",
            containerStatuses=[{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
        ),
        FAILED,
    ),
    ("budget", _obj("PodDisruptionBudget", "policy/v1", currentHealthy=0), CURRENT),
    ("job complete", _obj("Job", "batch/v1", conditions=[_is("Complete")]), CURRENT),
    ("job failed", _obj("Job", "batch/v1", conditions=[_is("Failed")]), FAILED),
    ("job suspended", _obj("Job", "batch/v1", conditions=[_is("Suspended")]), CURRENT),
    ("job running", _obj("Job", "batch/v1", startTime="now", active=1), PROGRESS),
    ("job not started", _obj("Job", "batch/v1"), PROGRESS),
    (
        "crd established",
        _obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            conditions=[_is("NamesAccepted"), _is("Established")],
        ),
        CURRENT,
    ),
    (
        "crd name taken",
        _obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            conditions=[_is("NamesAccepted", "False", "ListKindConflict")],
        ),
        FAILED,
    ),
    (
        "crd installing",
        _obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            conditions=[_is("Established", "False", "Installing")],
        ),
        PROGRESS,
    ),
]


@pytest.mark.parametrize(
    ("obj", "status"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_built_in_rules(obj: Json, status: Status) -> None:
    assert health.assess(obj).status is status


def test_deletion_comes_before_everything() -> None:
    obj = _deployment()
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert health.assess(obj).status is Status.TERMINATING


def test_messages_tell_what_is_missing() -> None:
    assert health.assess(_deployment(readyReplicas=1)).message == "Ready: 1/2"


@pytest.mark.parametrize("conditions", [None, "none", [None, "x"], {}])
def test_a_status_of_unknown_shape_is_no_failure(conditions: Any) -> None:
    assert health.assess(_obj("Widget", "x/v1", conditions=conditions)).status is CURRENT


RULE = {
    "apiVersion": "x/v1",
    "kind": "Widget",
    "inProgress": "status.phase == 'Working'",
    "failed": "status.phase == 'Broken'",
    "current": "status.phase == 'Done'",
}


@pytest.mark.parametrize(
    ("phase", "status"),
    [("Working", PROGRESS), ("Broken", FAILED), ("Done", CURRENT), ("Else", PROGRESS)],
)
def test_a_rule_replaces_the_built_in_ones(phase: str, status: Status) -> None:
    rules = health.compile_rules([RULE])
    obj = _obj("Widget", "x/v1", phase=phase, conditions=[_is("Stalled")])

    assert health.assess(obj, rules).status is status


def test_a_rule_does_not_see_generations_that_its_controller_has_not() -> None:
    rules = health.compile_rules([RULE])
    obj = _obj("Widget", "x/v1", phase="Done", observedGeneration=1)

    assert health.assess(obj, rules).status is PROGRESS


@pytest.mark.parametrize(
    ("kind", "api", "status"),
    [("Widget", "x/v1", FAILED), ("Gadget", "x/v1", FAILED), ("Widget", "x/v2", CURRENT)],
)
def test_a_rule_without_a_kind_is_for_all_of_its_version(
    kind: str, api: str, status: Status
) -> None:
    rules = health.compile_rules([{"apiVersion": "x/v1", "current": "false", "failed": "true"}])

    assert health.assess(_obj(kind, api), rules).status is status


def test_a_rule_that_does_not_compile_is_named() -> None:
    with pytest.raises(errors.StalledError, match="failed expression for x/v1/Widget") as caught:
        health.compile_rules([RULE | {"failed": "1 +"}])

    assert caught.value.reason == "InvalidCELExpression"


def test_a_rule_that_yields_no_bool_is_a_failure_that_is_told() -> None:
    rules = health.compile_rules([{"apiVersion": "x/v1", "current": "status.phase"}])

    found = health.assess(_obj("Widget", "x/v1", phase="Done"), rules)

    assert found.status is FAILED
    assert "does not yield a bool" in found.message


def test_equal_rules_have_equal_keys() -> None:
    (one,), (same,) = health.compile_rules([RULE]), health.compile_rules([RULE])
    (other,) = health.compile_rules([RULE | {"failed": "false"}])

    assert one.key == same.key != other.key


@pytest.mark.parametrize(
    ("current", "count"), [("true", 257), ("a.b == 'x' || " * 250 + "true", 19)]
)
def test_more_rules_than_are_compiled_are_refused(current: str, count: int) -> None:
    rule = {"apiVersion": "x/v1", "current": current}

    with pytest.raises(errors.StalledError, match="use fewer"):
        health.compile_rules([rule] * count)
