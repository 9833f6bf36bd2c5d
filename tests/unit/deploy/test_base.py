"""The Deployments ask for no more than they need, and their parts fit together."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers import components
from toolkit.kube import options

ROOT = Path(__file__).parents[3]
BASE = ROOT / "deploy" / "base"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((BASE / name).read_text()))


def pod(component: str) -> dict[str, Any]:
    found = [
        each
        for file in BASE.glob(f"*/{component}.yaml")
        for each in documents(str(file.relative_to(BASE)))
    ]
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


EMITTING = ("source-controller", "kustomize-controller", "helm-controller", "image-controller")
NAMES = (*EMITTING, "notification-controller")
COMPONENTS = pytest.mark.parametrize("component", NAMES)


@COMPONENTS
def test_a_pod_holds_no_privilege(component: str) -> None:
    spec = pod(component)

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@COMPONENTS
def test_a_pod_writes_only_to_volumes_that_end_with_it(component: str) -> None:
    spec = pod(component)

    assert all(volume["emptyDir"].keys() <= {"sizeLimit"} for volume in spec["volumes"])
    mounted = {each["name"] for each in spec["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


@COMPONENTS
def test_a_pod_runs_as_the_account_of_its_component(component: str) -> None:
    assert pod(component)["serviceAccountName"] == component


@COMPONENTS
def test_probes_and_scraping_find_their_ports(component: str) -> None:
    container = pod(component)["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "healthz"}
    assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"]
    assert ports["healthz"] == 9440
    assert ports["http-prom"] == 8080


def test_only_a_replica_that_serves_artifacts_is_behind_their_service() -> None:
    container = pod("source-controller")["containers"][0]

    assert container["readinessProbe"] == {"tcpSocket": {"port": "http"}}


@COMPONENTS
def test_logs_are_found_by_the_flux_command(component: str) -> None:
    assert [container["name"] for container in pod(component)["containers"]] == ["manager"]


@COMPONENTS
def test_a_component_understands_its_flags(component: str) -> None:
    container = pod(component)["containers"][0]

    parsed = options.parse(container["args"], components=components.NAMES)

    assert parsed.components == (component.removesuffix("-controller"),)
    assert parsed.enable_leader_election is True
    assert parsed.metrics_addr == ":8080"
    assert parsed.health_addr == ":9440"


@COMPONENTS
def test_a_pod_is_given_the_time_that_its_process_takes_to_stop(component: str) -> None:
    spec = pod(component)
    parsed = options.parse(spec["containers"][0]["args"], components=components.NAMES)

    assert spec["terminationGracePeriodSeconds"] > parsed.graceful_shutdown_timeout


def test_artifacts_are_served_at_the_address_that_is_advertised() -> None:
    (service,) = [
        e for e in documents("controllers/source-controller.yaml") if e["kind"] == "Service"
    ]
    container = pod("source-controller")["containers"][0]
    (port,) = [port for port in container["ports"] if port["name"] == "http"]

    assert service["metadata"]["name"] == "source-controller"
    assert service["spec"]["ports"][0]["port"] == 80
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert f"--storage-addr=:{port['containerPort']}" in container["args"]
    assert (
        "--storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.cluster.local."
        in container["args"]
    )


@pytest.mark.parametrize("name", EMITTING)
def test_events_go_to_the_notification_controller(name: str) -> None:
    address = "http://notification-controller.$(RUNTIME_NAMESPACE).svc.cluster.local./"

    assert f"--events-addr={address}" in pod(name)["containers"][0]["args"]


def test_traffic_that_no_policy_names_is_denied() -> None:
    (deny,) = [
        policy
        for policy in documents("../components/network-policies/controllers.yaml")
        if policy["metadata"]["name"] == "default-deny"
    ]

    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_artifacts_are_for_pods_of_the_namespace_only() -> None:
    (artifacts,) = [
        policy
        for policy in documents("../components/network-policies/controllers.yaml")
        if policy["metadata"]["name"] == "allow-artifacts"
    ]

    assert artifacts["spec"]["ingress"] == [
        {"from": [{"podSelector": {}}], "ports": [{"port": "http", "protocol": "TCP"}]}
    ]


def test_sources_of_the_namespace_that_the_readme_uses_are_shared() -> None:
    shared = {
        found["namespace"]
        for file in (BASE / "policy").glob("*/kustomization.yaml")
        if "namespace" in (found := yaml.safe_load(file.read_text()))
    }
    used = set(re.findall(r" -n ([a-z-]+)", (ROOT / "README.md").read_text()))

    assert used == shared == {"flux-system"}
    assert "kubectl apply --server-side -k deploy/base/policy" in (ROOT / "README.md").read_text()


def test_the_version_is_the_one_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (labels,) = documents("labels/all/kustomization.yaml")

    assert labels["images"] == [{"name": "penstock", "newTag": f"v{version}"}]
    assert labels["labels"][0]["pairs"]["app.kubernetes.io/version"] == f"v{version}"
