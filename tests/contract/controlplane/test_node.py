"""A real node: pods run, find each other and the API server, and nothing of it stays."""

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from controlplane import instance, plane
from controlplane.binaries import Variant
from controlplane.certificates import Authority
from controlplane.plane import ControlPlane
from tests.tools import realnode
from tests.tools.waiting import SECONDS, until

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]
PATIENCE = f"--timeout={SECONDS:.0f}s"
"""What kubectl is told about waiting; never a measure of speed."""

NAMESPACE = "restricted"
GROUP = "pods.test.penstock.dev"
CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


@dataclass(frozen=True)
class RealNode:
    """The node of this module, and what the machine was like before it."""

    running: ControlPlane
    traces: realnode.Traces
    before: dict[str, str]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace of these tests."""
        return self.running.kubectl(f"--namespace={NAMESPACE}", *arguments, stdin=stdin)

    def inside(self, *arguments: str) -> str:
        """Run a command in the pod of ``web``."""
        return self.kubectl("exec", "deployment/web", "--", "/podprobe", *arguments)

    def of(self, *query: str) -> Any:
        """Return an object, or a list of them."""
        return json.loads(self.kubectl("get", *query, "--output=json"))


class _Greeter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"of the machine")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


@pytest.fixture(scope="module")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """Start a node with one workload of the restricted profile on it."""
    before = realnode.machine()
    with plane.start("pytest-node", alternatives=8, variant=Variant.NODE) as running:
        realnode.load_probe(running, tmp_path_factory.mktemp("image"))
        started = RealNode(running, realnode.Traces.of(running.name), before)
        started.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(_workload()))
        started.kubectl("rollout", "status", "deployment/web", PATIENCE)
        yield started


def test_restricted_pod_becomes_ready_on_the_only_node(real_node: RealNode) -> None:
    (node,) = real_node.of("nodes")["items"]
    (pod,) = real_node.of("pods")["items"]

    assert pod["spec"]["nodeName"] == node["metadata"]["name"] == "penstock"
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    assert {row["type"]: row["status"] for row in pod["status"]["conditions"]}["Ready"] == "True"


def test_machine_reaches_a_pod_by_its_cluster_ip(real_node: RealNode) -> None:
    address = real_node.of("service", "web")["spec"]["clusterIP"]

    with urllib.request.urlopen(f"http://{address}/hello", timeout=10) as answer:
        told = json.load(answer)

    assert told["pod"].startswith("web-")


def test_pod_finds_a_service_by_name(real_node: RealNode) -> None:
    address = real_node.of("service", "web")["spec"]["clusterIP"]

    # Its own Service too: the packets come back to where they came from.
    answer = json.loads(real_node.inside("get", "http://web/by-name"))

    assert answer["pod"].startswith("web-")
    assert real_node.inside("lookup", f"web.{NAMESPACE}.svc.cluster.local").split() == [address]


def test_pod_reaches_the_api_server_by_its_service(real_node: RealNode) -> None:
    answer = real_node.inside("get", "https://kubernetes.default.svc/version", CA)

    assert json.loads(answer)["gitVersion"].startswith("v1.37.")


def test_unknown_name_is_denied_at_once(real_node: RealNode) -> None:
    with pytest.raises(plane.ControlPlaneError, match="no such host"):
        real_node.inside("lookup", "elsewhere.example")


def test_pod_reaches_a_server_of_this_machine(real_node: RealNode) -> None:
    places = real_node.running.addresses
    assert places is not None

    with ThreadingHTTPServer((places.host, 0), _Greeter) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        answer = real_node.inside("get", f"http://{places.host}:{server.server_port}/")
        server.shutdown()

    assert answer == "of the machine"


async def test_logs_of_a_pod_are_shown(real_node: RealNode) -> None:
    real_node.inside("get", "http://web/logged")

    # The runtime writes them down after the answer.
    await until(lambda: "served /logged\n" in real_node.kubectl("logs", "deployment/web"))


def test_aggregated_api_in_a_pod_is_reached_by_its_service(real_node: RealNode) -> None:
    real_node.kubectl("wait", f"apiservice/v1.{GROUP}", "--for=condition=Available", PATIENCE)

    answer = json.loads(real_node.kubectl("get", "--raw", f"/apis/{GROUP}/v1/things"))

    assert answer["user"] == "admin"


def test_kubelet_is_as_bound_as_its_node(real_node: RealNode) -> None:
    kubeconfig = real_node.running.directory / "kubelet.kubeconfig"

    with pytest.raises(plane.ControlPlaneError, match="forbidden"):
        real_node.kubectl("get", "secrets", f"--kubeconfig={kubeconfig}")


def test_pods_live_through_a_restart_of_the_kubelet(real_node: RealNode) -> None:
    (before,) = real_node.of("pods")["items"]

    real_node.running.stop_component("kubelet")
    real_node.running.start_component("kubelet")
    real_node.kubectl("scale", "deployment/web", "--replicas=2")
    real_node.kubectl("rollout", "status", "deployment/web", PATIENCE)

    pods = {pod["metadata"]["uid"]: pod for pod in real_node.of("pods")["items"]}
    assert len(pods) == 2
    kept = pods[before["metadata"]["uid"]]
    assert [each["restartCount"] for each in kept["status"]["containerStatuses"]] == [0]


async def test_nothing_stays_of_a_node_whose_supervisor_was_killed(real_node: RealNode) -> None:
    state = instance.read_state(real_node.running.name)
    assert state is not None

    os.kill(state.supervisor.pid, signal.SIGKILL)
    await until(lambda: not instance.is_running(state.name))
    instance.stop(state.name)

    assert real_node.traces.left() == []
    assert realnode.machine() == real_node.before


def test_down_removes_a_node_with_its_pods(tmp_path: Path) -> None:
    before = realnode.machine()
    name = f"pytest-node-cli-{os.getpid()}"
    _command("up", "--node", "--detach", f"--name={name}")
    try:
        running = plane.attach(name)
        traces = realnode.Traces.of(name)
        realnode.load_probe(running, tmp_path)
        running.kubectl(
            "create", "deployment", "web", f"--image={realnode.IMAGE}", "--", "/podprobe", "serve"
        )
        running.kubectl("rollout", "status", "deployment/web", PATIENCE)
        while_up = traces.left()
    finally:
        _command("down", f"--name={name}")

    assert any("process" in trace for trace in while_up)
    assert traces.left() == []
    assert realnode.machine() == before


def _command(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "controlplane", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def _workload() -> list[dict[str, Any]]:
    authority = Authority.create("web-ca")
    pair = authority.serving("web", hosts=(f"web.{NAMESPACE}.svc",))
    tls = {"tls.crt": _base64(pair.certificate), "tls.key": _base64(pair.key)}
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        _object("v1", "Namespace", NAMESPACE, metadata={"labels": labels}),
        _object("v1", "Secret", "web", type="kubernetes.io/tls", data=tls),
        _object(
            "v1",
            "Service",
            "web",
            spec={
                "selector": {"app": "web"},
                "ports": [
                    {"name": "http", "port": 80, "targetPort": 8080},
                    {"name": "https", "port": 443, "targetPort": 8443},
                ],
            },
        ),
        _object(
            "apiregistration.k8s.io/v1",
            "APIService",
            f"v1.{GROUP}",
            spec={
                "group": GROUP,
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": _base64(authority.pair.certificate),
                "service": {"name": "web", "namespace": NAMESPACE},
            },
        ),
        _object(
            "apps/v1",
            "Deployment",
            "web",
            spec={
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": _pod()},
            },
        ),
    ]


def _pod() -> dict[str, Any]:
    container = {
        "name": "web",
        "image": realnode.IMAGE,
        "args": ["serve", "/tls/tls.crt", "/tls/tls.key"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "containers": [container],
        "volumes": [{"name": "tls", "secret": {"secretName": "web"}}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 1,
    }


def _object(
    version: str, kind: str, name: str, *, metadata: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **(metadata or {})},
        **fields,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
