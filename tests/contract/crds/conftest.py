"""The definitions, applied once to the control plane of the test run."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import crds
from controlplane.plane import ControlPlane

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run(control_plane: ControlPlane) -> Kubectl:
    """Run kubectl as the administrator; documents go in on stdin."""

    def call(*args: str, documents: object = None) -> subprocess.CompletedProcess[str]:
        text = "" if documents is None else yaml.safe_dump_all(_listed(documents))
        command = [control_plane.kubectl_program, f"--kubeconfig={control_plane.kubeconfig}", *args]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=60, check=False
        )

    return call


@pytest.fixture(scope="session", autouse=True)
def definitions(run: Kubectl) -> None:
    folder = Path(crds.__file__).parent / "yaml"
    applied = run("apply", "--server-side", "--field-manager=penstock", "-k", str(folder))
    assert applied.returncode == 0, applied.stderr
    names = [f"crd/{kind.crd_name}" for kind in crds.KINDS]
    waited = run("wait", "--for=condition=Established", "--timeout=30s", *names)
    assert waited.returncode == 0, waited.stderr


def _listed(documents: object) -> list[object]:
    return documents if isinstance(documents, list) else [documents]
