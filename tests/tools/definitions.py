"""Our kinds on a control plane."""

import contextlib
import json
import time
from pathlib import Path

import crds
from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from tests.tools.waiting import SECONDS


def install(plane: ControlPlane) -> None:
    """Apply every definition, and wait until the API server serves it and tells so to clients."""
    folder = Path(crds.__file__).parent / "yaml"
    plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=penstock"),
        *("-k", str(folder)),
    )
    names = [f"crd/{kind.crd_name}" for kind in crds.KINDS]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=50s", *names)
    deadline = time.monotonic() + SECONDS
    for path, wanted in _served().items():
        while not wanted <= _listed(plane, path):
            assert time.monotonic() < deadline, f"{path} does not list all of {wanted}"


def _served() -> dict[str, set[str]]:
    """Return the plurals by the path where their version is listed."""
    found: dict[str, set[str]] = {}
    for kind in crds.KINDS:
        for version in (kind.version, *(old.version for old in kind.older)):
            found.setdefault(f"/apis/{kind.group}/{version}", set()).add(kind.plural)
    return found


def _listed(plane: ControlPlane, path: str) -> set[str]:
    with contextlib.suppress(ControlPlaneError):  # as long as no version of the group is served
        rows = json.loads(plane.kubectl("get", "--raw", path))["resources"]
        return {row["name"] for row in rows}
    return set()
