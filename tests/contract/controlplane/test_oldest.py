"""The oldest supported release of Kubernetes: definitions, gate, window and appliers work on it.

A part of the contract tests runs again, in a process whose control planes are of that release: of
each folder the files in which the API server's answers matter most.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import binaries, plane
from controlplane.binaries import OLDEST_PROGRAMS, Variant

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        plane.EXISTING in os.environ, reason="it is about the embedded control plane"
    ),
]

ROOT = Path(__file__).parents[3]
FILES = (
    "kube/test_client.py",
    "crds/test_conversion.py",
    "apply/test_stages.py",
    "apply/test_prune.py",
    "webhooks/test_admission.py",
    "webhooks/test_arming.py",
    "apiserver/test_reading.py",
    "helm/test_failures.py",
)
SECONDS = 300


@pytest.fixture(scope="module")
def oldest_programs() -> None:
    """Have the programs, which ``tests.conftest`` builds before the first test."""
    binaries.locate(variant=Variant.OLDEST)


@pytest.mark.usefixtures("oldest_programs")
def test_the_control_plane_is_of_the_oldest_release() -> None:
    with plane.start("pytest-oldest", alternatives=8, variant=Variant.OLDEST) as running:
        version = running.kubectl("get", "--raw", "/version")

    assert f'"gitVersion": "{OLDEST_PROGRAMS[0].version}"' in version


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.usefixtures("oldest_programs")
def test_contract_holds_on_the_oldest_release() -> None:
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}

    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "0", "-q", "-m", "not slow"),
            *(f"tests/contract/{file}" for file in FILES),
        ],
        cwd=ROOT,
        env=environment | {plane.VARIANT: Variant.OLDEST},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert answer.returncode == 0, answer.stdout[-20_000:]
