"""The link between this machine and a node: a pair of interfaces and one route.

Everything else, the rules of kube-proxy above all, is in the node's own network namespace. Which
block of addresses is ours is decided by the route: the kernel adds it for one of two who try.
"""

import json
import os
import subprocess
from contextlib import suppress
from typing import Final

from controlplane.errors import ControlPlaneError, NodeUnavailableError
from controlplane.node import addresses, packages
from controlplane.node.addresses import Addresses

_SECONDS: Final = 10


def connect(link: str) -> Addresses:
    """Make the interface ``link`` and give it the first free block of addresses.

    Raises:
        NodeUnavailableError: no block is free.
        ControlPlaneError: the kernel refuses the interface.
    """
    _ip("link", "add", link, "type", "veth", "peer", "name", _peer(link))
    for candidate in addresses.free(_routes()):
        _ip("address", "add", f"{candidate.host}/30", "dev", link)
        _ip("link", "set", link, "up")
        # Another node may have taken the block since we looked.
        with suppress(ControlPlaneError):
            _ip("route", "add", candidate.block, "via", candidate.node, "dev", link)
            return candidate
        _ip("address", "flush", "dev", link)
    disconnect(link)
    raise NodeUnavailableError(
        "every network from 10.176.0.0/16 to 10.191.0.0/16 has a route already:"
        " stop other nodes with `python -m controlplane down --all`, or remove a route"
    )


def extend(link: str, places: Addresses, *, pid: int) -> None:
    """Move the far end of the link into the network namespace of ``pid`` and set it up there."""
    peer = _peer(link)
    _ip("link", "set", peer, "netns", str(pid))
    inside = (
        "link set lo up",
        f"address add {places.node}/30 dev {peer}",
        f"link set {peer} up",
        # A packet needs a route before kube-proxy's rules turn it away from here.
        f"route add {places.services} via {places.host} dev {peer}",
    )
    enter = ("nsenter", f"--net=/proc/{pid}/ns/net")
    _run(*enter, "ip", "-batch", "-", stdin="\n".join(inside))
    _run(*enter, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def disconnect(link: str) -> None:
    """Remove the link, if it is there; the kernel does so too when it has removed the node."""
    with suppress(ControlPlaneError):
        _ip("link", "delete", link)


def _routes() -> list[str]:
    return [row["dst"] for row in json.loads(_ip("-json", "-4", "route", "show", "table", "all"))]


def _peer(link: str) -> str:
    return f"{link}n"


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str, stdin: str = "") -> str:
    answer = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env={**os.environ, "PATH": packages.SEARCH},
    )
    if answer.returncode != 0:
        raise ControlPlaneError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout
