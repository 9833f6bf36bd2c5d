"""The addresses of one node: a /16 of its own, so that several nodes share one machine.

::

    10.176.0.0/18     pods
    10.176.64.0/18    Services: .1 the API server, .10 DNS
    10.176.192.0/30   the link: .1 this machine, .2 the node
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

_BLOCKS: Final = tuple(IPv4Network(f"10.{number}.0.0/16") for number in range(176, 192))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What a node and its pods are called on the network."""

    block: str
    """All of the below; this machine has one route to it."""

    @property
    def pods(self) -> str:
        """The network of the pods."""
        return f"{self._at(0)}/18"

    @property
    def gateway(self) -> str:
        """The address that pods see as their router."""
        return self._at(0, 1)

    @property
    def services(self) -> str:
        """The network of the ClusterIPs."""
        return f"{self._at(64)}/18"

    @property
    def api(self) -> str:
        """The ClusterIP of the Service ``kubernetes``."""
        return self._at(64, 1)

    @property
    def dns(self) -> str:
        """The ClusterIP of the Service ``kube-dns``."""
        return self._at(64, 10)

    @property
    def host(self) -> str:
        """This machine, as the node and its pods reach it."""
        return self._at(192, 1)

    @property
    def node(self) -> str:
        """The node, as this machine reaches it."""
        return self._at(192, 2)

    def _at(self, third: int, fourth: int = 0) -> str:
        first, second, *_ = self.block.split(".")
        return f"{first}.{second}.{third}.{fourth}"


def free(routes: Iterable[str]) -> tuple[Addresses, ...]:
    """Return the blocks that no route leads to; the default route is left out.

    ``routes`` are destinations as ``ip route`` names them: networks, addresses and ``default``.
    """
    taken = [ipaddress.ip_network(each, strict=False) for each in routes if each != "default"]
    return tuple(
        Addresses(block=str(block))
        for block in _BLOCKS
        if not any(each.version == block.version and block.overlaps(each) for each in taken)
    )
