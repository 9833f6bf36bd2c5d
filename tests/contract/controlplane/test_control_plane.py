"""What a running control plane promises to everything that is tested against it."""

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane import instance, plane
from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from tests.tools.administrator import Administrator

pytestmark = pytest.mark.skipif(
    plane.EXISTING in os.environ, reason="it is about the embedded control plane"
)
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: init, image: example.com/init:1}]
      containers: [{name: web, image: example.com/web:1}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: once, image: example.com/once:1}]
"""

Kubectl = Callable[..., str]


def test_api_server_of_the_pinned_version_is_ready(kubectl: Kubectl) -> None:
    versions = json.loads(kubectl("version", "--output=json"))

    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert versions["serverVersion"]["gitVersion"].startswith("v1.37.")
    assert versions["clientVersion"]["gitVersion"].startswith("v1.37.")


def test_rbac_refuses_what_nobody_granted(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str
) -> None:
    kubectl("create", "serviceaccount", "tenant", f"--namespace={namespace}")
    kubeconfig = control_plane.kubeconfig_for(
        "tenant", token=control_plane.token(namespace, "tenant")
    )

    with pytest.raises(ControlPlaneError, match=rf"system:serviceaccount:{namespace}:tenant"):
        kubectl("get", "secrets", f"--namespace={namespace}", f"--kubeconfig={kubeconfig}")


def test_token_authenticates_as_its_service_account(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    where = f"--namespace={namespace}"
    kubectl("wait", "--for=create", "serviceaccount/default", where, "--timeout=30s")
    token = tmp_path / "token"
    token.write_text(control_plane.token(namespace, "default"))
    kubeconfig = control_plane.kubeconfig_for("by-file", token_file=token)

    review = json.loads(kubectl("auth", "whoami", "--output=json", f"--kubeconfig={kubeconfig}"))

    assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_certificate_authenticates_as_user_and_groups(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    kubeconfig = control_plane.kubeconfig_as("alice", groups=("team-a", "team-b"))

    review = json.loads(kubectl("auth", "whoami", "--output=json", f"--kubeconfig={kubeconfig}"))

    assert review["status"]["userInfo"]["username"] == "alice"
    assert {"team-a", "team-b"} <= set(review["status"]["userInfo"]["groups"])


def test_deployment_becomes_ready(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=DEPLOYMENT)

    kubectl("rollout", "status", "deployment/web", f"--namespace={namespace}", "--timeout=30s")

    pods = json.loads(kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))
    assert [pod["status"]["phase"] for pod in pods["items"]] == ["Running"] * 3
    assert len({pod["status"]["podIP"] for pod in pods["items"]}) == 3


def test_job_completes(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=JOB)

    kubectl("wait", "--for=condition=complete", "job/once", f"-n={namespace}", "--timeout=30s")

    job = json.loads(kubectl("get", "job/once", f"--namespace={namespace}", "--output=json"))
    pods = json.loads(kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))
    assert job["status"]["succeeded"] == 1
    assert [pod["status"]["phase"] for pod in pods["items"]] == ["Succeeded"]


def test_deleted_pods_go_away(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=DEPLOYMENT)
    kubectl("rollout", "status", "deployment/web", f"--namespace={namespace}", "--timeout=30s")

    kubectl("delete", "deployment", "web", f"--namespace={namespace}")
    kubectl("wait", "--for=delete", "pods", "--all", f"-n={namespace}", "--timeout=30s")

    assert kubectl("get", "pods", f"--namespace={namespace}", "--output=name") == ""


def test_namespace_gets_its_default_account_and_root_certificate(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    # One of its own: the fixture waits for the account.
    name = f"new-{secrets.token_hex(4)}"
    kubectl("create", "namespace", name)

    for obj in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
        kubectl("wait", "--for=create", obj, f"--namespace={name}", "--timeout=30s")

    query = ("get", "configmap/kube-root-ca.crt", f"--namespace={name}", "--output=json")
    assert json.loads(kubectl(*query))["data"] == {"ca.crt": control_plane.ca.decode()}


def test_aggregated_api_servers_can_tell_the_front_proxy_from_clients(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    published = json.loads(
        kubectl(
            *("get", "configmap", "extension-apiserver-authentication"),
            *("--namespace=kube-system", "--output=json"),
        )
    )["data"]

    assert json.loads(published["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert published["client-ca-file"] == control_plane.ca.decode()
    assert published["requestheader-client-ca-file"] != published["client-ca-file"]


@pytest.mark.parametrize(
    ("user", "verb", "resource", "allowed"),
    [
        ("kwok", "patch", "pods/status", "yes"),
        ("kwok", "get", "secrets", "no"),
        ("system:kube-scheduler", "create", "pods/binding", "yes"),
        ("system:kube-scheduler", "get", "secrets", "no"),
        ("system:kube-controller-manager", "delete", "deployments", "no"),
    ],
)
def test_component_may_do_its_own_work_only(
    kubectl: Kubectl, user: str, verb: str, resource: str, allowed: str
) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": _attributes(verb, resource)},
    }

    answer = json.loads(kubectl("create", "-f=-", "--output=json", stdin=json.dumps(review)))

    assert answer["status"]["allowed"] is (allowed == "yes")


def test_nothing_listens_beyond_loopback(control_plane: ControlPlane) -> None:
    listening = _listening_addresses(control_plane.name)

    assert [address for address, _ in listening] == ["127.0.0.1"]
    assert control_plane.server == f"https://127.0.0.1:{listening[0][1]}"


def test_nobody_else_can_enter_the_directory(control_plane: ControlPlane) -> None:
    assert control_plane.directory.stat().st_mode & 0o777 == 0o700
    assert control_plane.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_two_control_planes_know_nothing_of_each_other(
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    namespace: str,
) -> None:
    assert control_plane.server != second_control_plane.server
    assert control_plane.ca != second_control_plane.ca
    with pytest.raises(ControlPlaneError, match="NotFound"):
        second_control_plane.kubectl("get", "namespace", namespace)


def test_api_server_comes_back_at_its_address_with_its_data(
    second_control_plane: ControlPlane,
) -> None:
    name = f"kept-{secrets.token_hex(4)}"
    path = "/api/v1/namespaces/default/configmaps"
    with Administrator.of(second_control_plane) as administrator:
        before = administrator.send("POST", path, {"metadata": {"name": name}})

        second_control_plane.stop_component("kube-apiserver")
        with pytest.raises(ConnectionRefusedError):
            administrator.send("GET", path)
        second_control_plane.start_component("kube-apiserver")

        after = administrator.send("GET", f"{path}/{name}")

    assert after == before


def test_context_of_the_users_kubeconfig_is_used_as_it_is(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    users = tmp_path / "config"
    users.write_bytes(control_plane.kubeconfig.read_bytes())
    monkeypatch.setenv("KUBECONFIG", str(users))
    monkeypatch.setenv(plane.EXISTING, f"penstock-{control_plane.name}")

    with plane.obtain("never-started") as running:
        ready = running.kubectl("get", "--raw", "/readyz")

    assert ready == "ok"
    assert running.server == control_plane.server
    assert instance.read_state("never-started") is None
    assert not running.directory.exists()


def test_switch_must_name_the_context(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv(plane.EXISTING, "1")

    with pytest.raises(ControlPlaneError, match="must name a context"), plane.obtain():
        pass


def _attributes(verb: str, resource: str) -> dict[str, str]:
    name, _, subresource = resource.partition("/")
    group = "apps" if name == "deployments" else ""
    return {"verb": verb, "group": group, "resource": name, "subresource": subresource}


def _sockets(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        # What was open a moment ago may be closed.
        with contextlib.suppress(FileNotFoundError):
            name = link.readlink().name
            if name.startswith("socket:["):
                yield name


def _listening_addresses(name: str) -> list[tuple[str, int]]:
    """Return what the processes of an instance listen on, from proc(5) net/tcp and fd/."""
    state = instance.read_state(name)
    assert state is not None
    sockets = set()
    for process in (state.supervisor, *state.components.values()):
        sockets |= set(_sockets(process.pid))
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            # 0A is LISTEN; an address is hexadecimal words in host byte order.
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                packed = bytes.fromhex(address)[::-1]
                found.append((socket.inet_ntop(family, packed), int(port, 16)))
    return found
