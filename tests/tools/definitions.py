"""Our kinds on a control plane."""

from pathlib import Path

import crds
from controlplane.plane import ControlPlane


def install(plane: ControlPlane) -> None:
    """Apply every definition, and wait until the API server serves it."""
    folder = Path(crds.__file__).parent / "yaml"
    plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=penstock"),
        *("-k", str(folder)),
    )
    names = [f"crd/{kind.crd_name}" for kind in crds.KINDS]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
