"""An aggregated API server behind the control plane, as small as can be."""

import base64
import json
import os
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controlplane import plane
from controlplane.certificates import Authority
from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from tests.tools.waiting import SECONDS

pytestmark = pytest.mark.skipif(
    plane.EXISTING in os.environ, reason="it is about the embedded control plane"
)
Kubectl = Callable[..., str]


class Backend(BaseHTTPRequestHandler):
    """Answers every request with who the front proxy says the user is."""

    def do_GET(self) -> None:
        body = json.dumps({"user": self.headers.get("X-Remote-User")}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


def test_api_server_of_ours_on_loopback_is_reached_through_the_front_proxy(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    authority = Authority.create("backend-ca")
    authority.serving("backend", hosts=(f"backend.{namespace}.svc",)).write(tmp_path, "backend")
    group = f"{secrets.token_hex(4)}.test.penstock.dev"
    alice = control_plane.kubeconfig_as("alice", groups=("system:masters",))

    with _serving(tmp_path, _front_proxy_authority(kubectl)) as port:
        objects = _objects(group, namespace, port, authority.pair.certificate)
        kubectl("apply", "--filename=-", stdin=json.dumps(objects))
        try:
            kubectl(
                *("wait", f"apiservice/v1.{group}", "--for=condition=Available"),
                "--timeout=30s",
            )
            answer = _answered(kubectl, f"/apis/{group}/v1", alice)
        finally:
            kubectl("delete", "apiservice", f"v1.{group}")

    assert json.loads(answer) == {"user": "alice"}


def _answered(kubectl: Kubectl, path: str, kubeconfig: Path) -> str:
    """Ask until the API server passes it on: what it tells to be available it reads a bit later."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return kubectl("get", "--raw", path, f"--kubeconfig={kubeconfig}")
        except ControlPlaneError:
            if time.monotonic() > deadline:
                raise


@contextmanager
def _serving(directory: Path, client_ca: str) -> Iterator[int]:
    # Anyone who has no certificate of the front proxy's authority is not even heard.
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=client_ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(directory / "backend.crt", directory / "backend.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _front_proxy_authority(kubectl: Kubectl) -> str:
    text = kubectl(
        *("get", "configmap", "extension-apiserver-authentication", "--output=json"),
        "--namespace=kube-system",
    )
    return str(json.loads(text)["data"]["requestheader-client-ca-file"])


def _objects(group: str, namespace: str, port: int, ca: bytes) -> dict[str, Any]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "backend", "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    registration = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(ca).decode(),
            "service": {"name": "backend", "namespace": namespace, "port": port},
        },
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, registration]}
