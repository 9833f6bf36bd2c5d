"""What an IP address is: on the internet, nearer to us, or a service that tells who we are. Pure.

An IPv6 address that stands for an IPv4 one is that one here: it leads to the same place.
"""

import ipaddress
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class OutOfReachError(OSError):
    """An address may not be dialled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # What aiohttp tells of an OSError.
        self.strerror = message


def is_public(one: Address) -> bool:
    """Tell whether an address is on the internet, and nobody's metadata service."""
    return one.is_global and not one.is_multicast and not is_metadata(one)


def is_metadata(one: Address) -> bool:
    """Tell whether a cloud may have its metadata service there: link-local, or known for it."""
    return one.is_link_local or any(one in network for network in _METADATA)


def names_metadata(host: str) -> bool:
    """Tell whether a name is one by which a cloud's metadata service goes."""
    return host.rstrip(".").lower() in _METADATA_NAMES


def literal(host: str) -> Address | None:
    """Return the address that a host is, unless it is a name."""
    try:
        return parsed(host.strip("[]"))
    except ValueError:
        return None


def parsed(text: str) -> Address:
    """Read an address, with or without a zone.

    Raises:
        ValueError: it is none.
    """
    one = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(one, ipaddress.IPv4Address):
        return one
    if one in _NAT64:
        return ipaddress.IPv4Address(int(one) & 0xFFFFFFFF)
    return one.ipv4_mapped or one.sixtofour or one


_METADATA_NAMES: Final = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"}
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_METADATA: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        # Beside link-local addresses, which most clouds use.
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google
        "168.63.129.16/32",  # Azure
        "100.100.100.200/32",  # Alibaba
        "192.0.0.192/32",  # Oracle
    )
)
