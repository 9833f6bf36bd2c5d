"""The ``flux`` command of Flux users finds Penstock, and calls it by its name and version."""

import asyncio
import copy
import json
import logging
import ssl
import tomllib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme
import yaml
from aiohttp import web

from controlplane.plane import ControlPlane
from tests.fakes import serving
from toolkit.telemetry import JsonFormatter, ObjectLogger

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("definitions")]

BASE = Path(__file__).parents[3] / "deploy" / "base"
INSTALLED = {"Deployment", "Service", "ServiceAccount", "NetworkPolicy"}
FOUND = "distributions.penstock.dev"
"""The definition that the command finds in the place of the kinds."""
PROJECT = tomllib.loads((BASE.parents[1] / "pyproject.toml").read_text())["project"]
VERSION = f"v{PROJECT['version']}"
COMPONENTS = (
    "helm-controller",
    "image-controller",
    "kustomize-controller",
    "notification-controller",
    "penstock-apiserver",
    "source-controller",
    "webhook",
)

Kubectl = Callable[..., str]
Json = dict[str, Any]


class Installation:
    """What of Penstock has a place in a namespace, without pods, and the command beside it."""

    def __init__(self, plane: ControlPlane, program: Path, namespace: str) -> None:
        self.namespace = namespace
        self._plane, self._program = plane, program

    async def flux(self, *arguments: str) -> str:
        """Return what the command says."""
        process = await asyncio.create_subprocess_exec(
            *(str(self._program), *arguments, f"--namespace={self.namespace}"),
            env={**self._plane.environment(), "HOME": "/nonexistent"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()


@pytest.fixture(scope="module")
def manifests(control_plane: ControlPlane) -> list[Json]:
    """Return what of the manifests has a place in a namespace; apply what the command finds."""
    documents = list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(BASE))))
    (found,) = (each for each in documents if each["metadata"]["name"] == FOUND)
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(found))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=50s", f"crd/{FOUND}")
    return [each for each in documents if each["kind"] in INSTALLED]


@pytest_asyncio.fixture
async def installed(
    control_plane: ControlPlane, manifests: list[Json], namespace: str, flux_program: Path
) -> Installation:
    here = copy.deepcopy(manifests)
    for each in here:
        each["metadata"]["namespace"] = namespace
        if each["kind"] == "Deployment":
            each["spec"]["replicas"] = 0
    documents = "\n".join(f"---\n{json.dumps(each)}" for each in here)
    control_plane.kubectl("create", "-f", "-", stdin=documents)
    return Installation(control_plane, flux_program, namespace)


async def test_the_distribution_and_its_version_are_ours(installed: Installation) -> None:
    told = yaml.safe_load(await installed.flux("version"))

    assert told["distribution"] == f"penstock-{VERSION}"
    assert told["penstock"] == VERSION


async def test_the_installation_passes_the_check(installed: Installation) -> None:
    said = await installed.flux("check", "--poll-interval=10ms")

    assert f"distribution: penstock-{VERSION}" in said
    assert "bootstrapped: false" in said
    for component in COMPONENTS:
        assert f"{component}: deployment ready" in said
    assert f"{FOUND}/v1\n" in said
    assert "policy.penstock.dev" not in said
    assert "all checks passed" in said


async def test_no_kind_and_no_right_is_offered_for_deletion(installed: Installation) -> None:
    said = await installed.flux("uninstall", "--dry-run")

    # Other tests share the cluster, and of their objects the finalizers would go.
    objects = {
        line.split()[1]
        for line in said.splitlines()
        if line.endswith(" deleted (dry run)") and "finalizers" not in line
    }
    assert objects == {
        *(f"Deployment/{installed.namespace}/{component}" for component in COMPONENTS),
        f"CustomResourceDefinition/{FOUND}",
        f"Namespace/{installed.namespace}",
    }


@pytest_asyncio.fixture
async def node(kubectl: Kubectl, installed: Installation) -> AsyncIterator[str]:
    """Run a node whose kubelet does nothing but give one log line a pod."""
    name = f"node-{installed.namespace}"
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    async with serving.serving(_log, tls=tls) as port:
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        cordoned = manifest | {"spec": {"unschedulable": True}}
        kubectl("create", "-f", "-", stdin=json.dumps(cordoned))
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        patch = json.dumps({"status": status})
        kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={patch}")
        try:
            yield name
        finally:
            await asyncio.to_thread(kubectl, "delete", "node", name)


async def _log(request: web.Request) -> web.Response:
    """Answer with the line that a controller writes about the object ``web`` of ``apps``."""
    fields = {"controllerKind": "GitRepository", "name": "web", "namespace": "apps"}
    record = logging.LogRecord("x", logging.INFO, "", 0, "stored artifact", (), None)
    _, extra = ObjectLogger(logging.getLogger(), fields).process("", {})
    record.__dict__.update(extra["extra"])
    return web.Response(text=f"starting {request.path}\n{JsonFormatter().format(record)}\n")


async def test_logs_are_found(installed: Installation, kubectl: Kubectl, node: str) -> None:
    listed = json.loads(kubectl("get", "deployments", "-n", installed.namespace, "-o", "json"))
    pods = [_pod(each, node) for each in listed["items"]]
    kubectl("create", "-f", "-", stdin="\n".join(f"---\n{json.dumps(pod)}" for pod in pods))

    where = f"--flux-namespace={installed.namespace}"
    said = await installed.flux("logs", where, "--all-namespaces", "--kind=GitRepository")

    lines = said.splitlines()
    assert len(lines) == len(COMPONENTS)
    assert all("info GitRepository/web.apps - stored artifact" in line for line in lines)


def _pod(deployment: Json, node: str) -> Json:
    template = deployment["spec"]["template"]
    containers = [
        {key: each[key] for key in ("name", "image")} for each in template["spec"]["containers"]
    ]
    metadata = {
        "name": f"pod-{deployment['metadata']['name']}",
        "namespace": deployment["metadata"]["namespace"],
        "labels": template["metadata"]["labels"],
    }
    spec = {
        "nodeName": node,
        "serviceAccountName": template["spec"]["serviceAccountName"],
        "containers": containers,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
