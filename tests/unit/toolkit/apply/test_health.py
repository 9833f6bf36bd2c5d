"""kstatus for the built-in kinds, and CEL rules."""

from typing import Any

import pytest

from toolkit import errors
from toolkit.apply import health
from toolkit.apply.health import Status
from toolkit.expressions.expression import Outcome
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


def outcomes(*kinds: str) -> list[Outcome]:
    """Return outcomes: of ``true``, ``false``, and others by their kind."""
    bools = {"true": True, "false": False}
    return [
        # ``kind`` is any other of the kinds of outcomes.
        Outcome(kind="bool", true=bools[kind]) if kind in bools else Outcome(kind=kind)  # type: ignore[arg-type]
        for kind in kinds
    ]


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (("true", "true", "true"), PROGRESS),
        (("false", "true", "true"), FAILED),
        (("missing", "missing", "true"), CURRENT),
        (("false", "missing", "false"), PROGRESS),
        (("false", "false", "spent"), FAILED),
        (("false", "other", "true"), FAILED),
        (("true", "spent", "spent"), PROGRESS),
    ],
)
def test_outcomes_count_in_the_order_of_flux(kinds: tuple[str, ...], status: Status) -> None:
    (rule,) = health.rules_of([RULE])

    assert health.judged(rule, outcomes(*kinds)).status is status


def test_what_was_not_evaluated_or_is_no_bool_is_told() -> None:
    (rule,) = health.rules_of([RULE])

    spent, other = (
        health.judged(rule, outcomes("false", "false", kind)) for kind in ("spent", "other")
    )

    assert "too expensive on these values" in spent.message
    assert "does not yield a bool" in other.message


def test_a_case_has_the_fields_of_the_object_without_those_of_managers() -> None:
    (rule,) = health.rules_of([RULE])
    obj = _obj("Widget", "x/v1", phase="Done")
    obj["metadata"]["managedFields"] = [{"manager": "x"}]

    case = health.case(rule, obj)

    assert case.given["status"] == {"phase": "Done"}
    assert "managedFields" not in case.given["metadata"]
    assert [step.expression.text for step in case.steps] == [
        RULE["inProgress"],
        RULE["failed"],
        RULE["current"],
    ]


@pytest.mark.parametrize(
    ("ready", "expected"),
    [(_is("Ready"), CURRENT), (_is("Ready", "False", message="upgrade failed"), PROGRESS)],
)
@pytest.mark.parametrize("suspend", [False, True])
def test_a_suspended_object_has_the_health_of_its_last_reconciliation(
    ready: Json, expected: Status, *, suspend: bool
) -> None:
    obj = _obj(
        "HelmRelease",
        "helm.toolkit.fluxcd.io/v2",
        spec={"suspend": suspend},
        observedGeneration=1,
        conditions=[ready],
    )

    found = health.assess(obj)

    assert found.status is (expected if suspend else PROGRESS)
    assert ("generation" in found.message) is not suspend


def test_a_suspended_object_of_another_controller_waits_for_its_generation() -> None:
    obj = _obj("Work", "example.org/v1", spec={"suspend": True}, observedGeneration=1)

    assert health.assess(obj).status is PROGRESS


def test_no_rule_changes_what_a_generation_or_a_deletion_means() -> None:
    unseen = _obj("Widget", "x/v1", phase="Done", observedGeneration=1)
    leaving = _deployment()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    found = [health.settled(each) for each in (unseen, leaving, _deployment())]

    assert [each and each.status for each in found] == [PROGRESS, Status.TERMINATING, None]


@pytest.mark.parametrize(
    ("kind", "api", "covered"),
    [("Widget", "x/v1", True), ("Gadget", "x/v1", True), ("Widget", "x/v2", False)],
)
def test_a_rule_without_a_kind_is_for_all_of_its_version(
    kind: str, api: str, *, covered: bool
) -> None:
    (rule,) = health.rules_of([{"apiVersion": "x/v1", "current": "false"}])

    assert rule.covers(_obj(kind, api)) is covered


def test_expressions_are_named_by_their_field_and_kind() -> None:
    named = dict(health.named(health.rules_of([RULE])))

    assert named["failed expression for x/v1/Widget"].text == RULE["failed"]


def test_equal_rules_have_equal_keys() -> None:
    (one,), (same,) = health.rules_of([RULE]), health.rules_of([RULE])
    (other,) = health.rules_of([RULE | {"failed": "false"}])

    assert one.key == same.key != other.key


@pytest.mark.parametrize(
    ("current", "count"), [("true", 257), ("a.b == 'x' || " * 250 + "true", 19)]
)
def test_more_rules_than_are_compiled_are_refused(current: str, count: int) -> None:
    rule = {"apiVersion": "x/v1", "current": current}

    with pytest.raises(errors.StalledError, match="use fewer"):
        health.rules_of([rule] * count)
