"""One node as the supervisor and others use it: reserve it, connect it, give it images, remove it.

A node has a name of its own on the machine, which its interface and its cgroup bear. Instances of
several users and caches may run on one machine, and no one removes what belongs to another.
"""

import http.client
import secrets
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from controlplane.certificates import Authority
from controlplane.errors import ControlPlaneError, NodeUnavailableError
from controlplane.node import (
    cgroups,
    components,
    image,
    layout,
    namespaces,
    network,
    packages,
)
from controlplane.node.addresses import Addresses
from controlplane.node.packages import Packages

_IMPORT_SECONDS: Final = 120
_ANSWER_SECONDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a node holds on the machine: enough to use and to remove it."""

    handle: str
    """The name of its interface and its cgroup."""
    block: str = ""
    """The network of its addresses, once it has them."""

    @property
    def places(self) -> Addresses:
        """The addresses of the node."""
        return Addresses(block=self.block)


class Node:
    """The node of the instance in ``directory``, brought up step by step.

    Raises:
        NodeUnavailableError: this machine or this user cannot have a node.
    """

    def __init__(self, directory: Path) -> None:
        self._found = packages.find()
        self._directory = directory
        refuse_hidden(directory)
        # With the suffix of the far end it fits into the 15 letters of an interface's name.
        self.reservation = Reservation(handle=f"penstock{secrets.token_hex(3)}")

    def reserve(self) -> None:
        """Take addresses that no other node has."""
        places = network.connect(self.reservation.handle)
        self.reservation = replace(self.reservation, block=places.block)

    @property
    def places(self) -> Addresses:
        """The addresses of the node; only once they are reserved."""
        return self.reservation.places

    @property
    def programs(self) -> dict[str, str]:
        """Where the distribution's programs are that run as components."""
        return {"containerd": self._found.containerd}

    def lay_out(self, ca: Authority) -> None:
        """Write the node's configuration and make its cgroup."""
        cgroups.create(self.reservation.handle)
        layout.create(
            self._directory,
            places=self.places,
            found=self._found,
            cgroup=self.reservation.handle,
            ca=ca,
        )

    def walls_stand(self) -> bool:
        """Tell whether the namespaces are there, with their mounts."""
        return (self._directory / "node" / namespaces.READY).exists()

    def connect(self, sandbox: int) -> None:
        """Join the network of the namespaces that process ``sandbox`` holds to this machine."""
        network.extend(self.reservation.handle, self.places, pid=sandbox)

    def runtime_answers(self, sandbox: int) -> bool:
        """Tell whether containerd takes requests."""
        return self._containerd(sandbox, "version", stdin=None).returncode == 0

    def give_pause_image(self, sandbox: int, program: Path) -> None:
        """Import the image that the kubelet starts every pod with."""
        archive = image.archive(
            components.PAUSE_IMAGE, {"/pause": program.read_bytes()}, entrypoint=["/pause"]
        )
        answer = self._containerd(sandbox, "images", "import", "-", stdin=archive)
        if answer.returncode != 0:
            raise ControlPlaneError(f"the pause image cannot be imported: {_words(answer)}")

    def resolves(self) -> bool:
        """Tell whether DNS knows the Services."""
        connection = http.client.HTTPConnection(
            self.places.node, components.DNS_READY_PORT, timeout=_ANSWER_SECONDS
        )
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _containerd(
        self, sandbox: int, *arguments: str, stdin: bytes | None
    ) -> subprocess.CompletedProcess[bytes]:
        command = containerd_client(sandbox, self._found, *arguments)
        return subprocess.run(
            command, input=stdin or b"", capture_output=True, timeout=_IMPORT_SECONDS, check=False
        )


def import_image(sandbox: int, archive: IO[bytes]) -> str:
    """Import the images of an archive (OCI layout, or ``docker save``); return what ctr tells.

    Raises:
        NodeUnavailableError: we are not root.
        ControlPlaneError: containerd refuses the archive.
    """
    command = containerd_client(sandbox, packages.find(), "images", "import", "-")
    answer = subprocess.run(
        command, stdin=archive, capture_output=True, timeout=_IMPORT_SECONDS, check=False
    )
    if answer.returncode != 0:
        raise ControlPlaneError(f"containerd refuses the images: {_words(answer)}")
    return answer.stdout.decode(errors="replace")


def containerd_client(sandbox: int, found: Packages, *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs ``ctr`` with the images of the node's pods."""
    ctr = (found.ctr, f"--address={components.SOCKET}", "--namespace=k8s.io", *arguments)
    return components.entering(sandbox, Path("/"), *ctr)


def remove(reservation: Reservation) -> None:
    """Remove what the kernel leaves of a node whose namespaces have ended or are about to.

    Raises:
        ControlPlaneError: processes of the node still run.
    """
    network.disconnect(reservation.handle)
    cgroups.remove(reservation.handle)


def refuse_hidden(directory: Path) -> None:
    """Raise NodeUnavailableError if the programs of a node would not see ``directory``."""
    for hidden in namespaces.HIDDEN:
        if directory.resolve().is_relative_to(hidden):
            raise NodeUnavailableError(
                f"{directory} is below {hidden}, of which a node has its own:"
                " set XDG_CACHE_HOME to another directory"
            )


def _words(answer: subprocess.CompletedProcess[bytes]) -> str:
    return answer.stderr.decode(errors="replace").strip()
