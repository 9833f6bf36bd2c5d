"""What a node takes from the machine: programs of the distribution, and the right to use them.

Nothing is installed here. The distribution matches containerd and runc to each other and to the
kernel, and maintains them.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controlplane.errors import NodeUnavailableError

SEARCH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of a node's programs."""

PACKAGES: Final = (
    "containerd",
    "runc",
    "containernetworking-plugins",
    "iptables",
    "iproute2",
    "util-linux",
)

_PROGRAMS: Final = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "iptables",
    "iptables-restore",
    "ip",
    "nsenter",
    "unshare",
    "mount",
)
# Debian's directory, that of the upstream release, and Fedora's.
_PLUGIN_DIRECTORIES: Final = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
_PROBE_SECONDS: Final = 10
_PLUGINS: Final = ("ptp", "host-local", "portmap", "loopback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Where the distribution's programs are."""

    containerd: str
    ctr: str
    plugins: str
    """The directory of the CNI plugins."""


def find() -> Packages:
    """Return what a node is made of on this machine.

    Raises:
        NodeUnavailableError: we are not root, something is missing, or the kernel refuses
            namespaces; says what to do.
    """
    if os.geteuid() != 0:
        raise NodeUnavailableError(
            "a node needs root, for namespaces, mounts and network interfaces:"
            " run the command as root, or leave out --node"
        )
    found = {name: shutil.which(name, path=SEARCH) for name in _PROGRAMS}
    plugins = next((path for path in _PLUGIN_DIRECTORIES if _complete(Path(path))), "")
    missing = [name for name, path in found.items() if path is None]
    missing += [] if plugins else [f"the CNI plugins {', '.join(_PLUGINS)}"]
    if missing:
        raise NodeUnavailableError(
            f"a node needs programs that are not here: {', '.join(missing)}."
            f" Install them: apt-get install --no-install-recommends {' '.join(PACKAGES)}"
        )
    _refuse_confined(str(found["unshare"]))
    return Packages(containerd=str(found["containerd"]), ctr=str(found["ctr"]), plugins=plugins)


def _refuse_confined(unshare: str) -> None:
    """Raise NodeUnavailableError where root lacks the rights of root, as in most containers."""
    command = (unshare, "--mount", "--net", "--pid", "--fork", "true")
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
    )
    if answer.returncode != 0:
        raise NodeUnavailableError(
            f"a node needs mount, network and process namespaces: {answer.stderr.strip()}."
            " Run the command outside of containers, or in a privileged one, or leave out --node"
        )


def _complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in _PLUGINS)
