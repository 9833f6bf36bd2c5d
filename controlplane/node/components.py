"""The programs of a node and their flags, and how the API server reaches a node.

``kwok`` is not started beside a real node: one of the two plays the kubelet.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controlplane.components import COMPONENTS, Component

NODE: Final = "penstock"
SANDBOX: Final = "node"
"""The component that holds the namespaces; when it ends, so does all that is in them."""

SOCKET: Final = "/run/containerd/containerd.sock"

PAUSE_IMAGE: Final = "penstock.dev/pause:1"

API_PORT: Final = 443
DNS_READY_PORT: Final = 8181

_SCRIPT: Final = str(Path(__file__).with_name("namespaces.py"))

CONTROL_PLANE: Final = tuple(each for each in COMPONENTS if each.name != "kwok")

FLAGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "kube-apiserver": (
            "--service-cluster-ip-range={services}",
            # A kubelet may write what concerns its own node and pods, and nothing else.
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # logs, exec and port-forward go to the kubelet.
            "--kubelet-client-certificate=pki/kubelet-client.crt",
            "--kubelet-client-key=pki/kubelet-client.key",
            "--kubelet-certificate-authority=pki/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
        ),
    }
)
"""What the components of the control plane get in addition, in place of flags of the same name."""

HOLDER: Final = Component(
    name=SANDBOX, program=sys.executable, flags=("-I", "-S", _SCRIPT, "create", "{directory}/node")
)

RUNTIME: Final = Component(
    name="containerd", inside=True, flags=("--config={directory}/node/containerd.toml",)
)

COMPONENTS_OF_NODE: Final = (
    # The API server listens on this machine's loopback; pods come by this way.
    Component(
        name="api-relay",
        program=sys.executable,
        flags=("-m", "controlplane.node.relay", "{sandbox}", "{port}"),
    ),
    Component(
        name="kubelet",
        inside=True,
        flags=(
            "--config={directory}/node/kubelet.yaml",
            "--kubeconfig={directory}/kubelet.kubeconfig",
            f"--hostname-override={NODE}",
            "--node-ip={node}",
        ),
    ),
    Component(name="kube-proxy", inside=True, flags=("--config={directory}/node/kube-proxy.yaml",)),
    Component(name="coredns", inside=True, flags=("-conf={directory}/node/Corefile",)),
)

ALL: Final = (HOLDER, RUNTIME, *CONTROL_PLANE, *COMPONENTS_OF_NODE)


def entering(sandbox: int, directory: Path, *command: str) -> tuple[str, ...]:
    """Return the command line that runs ``command`` in the namespaces of process ``sandbox``."""
    return (sys.executable, "-I", "-S", _SCRIPT, "enter", str(sandbox), str(directory), *command)
