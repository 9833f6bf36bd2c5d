"""What a controller does while a command waits for it; the tests play it."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

from cli.stack import install
from tests.tools.waiting import SECONDS

REQUESTED = "reconcile.fluxcd.io/requestedAt"


def start(cluster: Any, *arguments: str, timeout: str = "90s") -> "subprocess.Popen[str]":
    """Run the command beside the test, which plays the controller meanwhile."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *arguments, "-n", cluster.namespace, f"--timeout={timeout}"],
        env={
            **os.environ,
            "KUBECONFIG": str(cluster.plane.kubeconfig),
            "PYTHONPATH": str(install.ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def requested(cluster: Any, kind: str, name: str) -> str:
    """Wait for the request, as a controller does, and return its value."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        value = cluster.read(kind, name)["metadata"].get("annotations", {}).get(REQUESTED)
        if value:
            return str(value)
        time.sleep(0.05)
    raise AssertionError(f"{kind} {name} was not annotated")


def answer(cluster: Any, kind: str, name: str, status: dict[str, Any]) -> None:
    moment = requested(cluster, kind, name)
    body = {"status": {"lastHandledReconcileAt": moment, **status}}
    cluster.patch_status(kind, name, body)


def event(cluster: Any, kind: str, name: str, reason: str, **more: Any) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {"kind": kind, "name": name, "namespace": cluster.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}-{reason.lower()}"},
        "involvedObject": involved,
        "reason": reason,
        "message": "a message",
        "type": "Normal",
        "firstTimestamp": now,
        "lastTimestamp": now,
        **more,
    }
