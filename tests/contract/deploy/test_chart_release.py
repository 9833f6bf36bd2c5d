"""Helm installs the chart into the API server, upgrades it, and uninstalls it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import crds
from controlplane.plane import ControlPlane
from tests.tools import definitions
from tests.tools.helmcli import Helm
from toolkit.objects import Json, dig

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
SECRET_BYTES = 1 << 20
"""What a Secret may hold: MaxSecretSize of Kubernetes."""


@pytest.fixture
def shared(control_plane: ControlPlane) -> Iterator[None]:
    """Leave the definitions as other tests want them."""
    yield
    definitions.install(control_plane)


@pytest.mark.slow  # each command of Helm waits for the definitions
@pytest.mark.usefixtures("definitions", "shared")
def test_a_release_is_installed_upgraded_and_uninstalled(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    to = (f"--namespace={namespace}", f"--kubeconfig={control_plane.kubeconfig}")
    # The definitions are those of all tests.
    helm("install", "penstock", CHART, *to, "--take-ownership", "--force-conflicts")
    stored = _get(control_plane, namespace, "secret", "sh.helm.release.v1.penstock.v1")
    assert len(json.dumps(stored["data"])) < SECRET_BYTES
    assert _replicas(control_plane, namespace) == 1

    helm(
        *("upgrade", "penstock", CHART, *to, "--reuse-values", "--force-conflicts"),
        *("--set=components.ha.enabled=true", "--set=crds.install=false"),
        *("--set=helmController.extraArgs={--concurrent=2}",),
    )
    assert _replicas(control_plane, namespace) == 2
    deployment = _get(control_plane, namespace, "deployment", "helm-controller")
    (container,) = dig(deployment, "spec", "template", "spec", "containers")
    assert container["args"][-1] == "--concurrent=2"

    helm("uninstall", "penstock", *to)
    left = control_plane.kubectl("get", "deployments,services", f"--namespace={namespace}")
    assert left == ""
    names = [f"crd/{kind.crd_name}" for kind in crds.KINDS]
    control_plane.kubectl("get", *names)


def _replicas(plane: ControlPlane, namespace: str) -> int:
    replicas: int = _get(plane, namespace, "deployment", "helm-controller")["spec"]["replicas"]
    return replicas


def _get(plane: ControlPlane, namespace: str, kind: str, name: str) -> Json:
    text = plane.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json")
    found: Json = json.loads(text)
    return found
