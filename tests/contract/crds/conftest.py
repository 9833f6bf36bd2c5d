"""The definitions, applied once to the control plane of the test run."""

import subprocess
from collections.abc import Callable

import pytest
import yaml

from controlplane.plane import ControlPlane

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run(control_plane: ControlPlane, definitions: None) -> Kubectl:
    """Run kubectl as the administrator; documents go in on stdin."""
    del definitions

    def call(*args: str, documents: object = None) -> subprocess.CompletedProcess[str]:
        text = "" if documents is None else yaml.safe_dump_all(_listed(documents))
        command = [control_plane.kubectl_program, f"--kubeconfig={control_plane.kubeconfig}", *args]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=60, check=False
        )

    return call


def _listed(documents: object) -> list[object]:
    return documents if isinstance(documents, list) else [documents]
