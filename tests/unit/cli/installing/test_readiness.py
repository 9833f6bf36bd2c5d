"""How ready a Deployment of the installation is."""

from typing import Any

import pytest

from cli.installing import readiness
from toolkit.apply.health import Status

STANDBY = {
    "observedGeneration": 2,
    "replicas": 2,
    "updatedReplicas": 2,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "unavailableReplicas": 1,
    "conditions": [
        {"type": "Available", "status": "False"},
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ],
}


def deployment(component: str, status: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": component,
            "generation": 2,
            "labels": {"app.kubernetes.io/component": component},
        },
        "spec": {"replicas": 2},
        "status": status,
    }


def test_source_controller_whose_standby_is_not_ready_is_ready() -> None:
    judged = readiness.assess(deployment("source-controller", STANDBY))

    assert judged.status is Status.CURRENT


@pytest.mark.parametrize(
    ("component", "status"),
    [
        ("kustomize-controller", STANDBY),
        ("source-controller", {**STANDBY, "readyReplicas": 0}),
        ("source-controller", {**STANDBY, "updatedReplicas": 1}),
        ("source-controller", {**STANDBY, "observedGeneration": 1}),
        ("source-controller", {**STANDBY, "replicas": 1, "updatedReplicas": 1}),
        ("source-controller", {}),
    ],
    ids=["another", "no leader", "old replica", "old generation", "scaling", "not seen yet"],
)
def test_deployment_is_not_ready(component: str, status: dict[str, Any]) -> None:
    assert readiness.assess(deployment(component, status)).status is not Status.CURRENT
