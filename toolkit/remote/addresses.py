"""Classify IP addresses: public, private, or a metadata service. Pure.

An IPv6 address that represents an IPv4 address is treated as that address, because it leads to the
same host. So is a host that a resolver would parse as an address in any spelling, because proxies
get it unchanged.
"""

import ipaddress
import re
import socket
import unicodedata
from typing import Final, TypeAlias
from urllib.parse import unquote

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class OutOfReachError(OSError):
    """An address may not be dialled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # aiohttp reads this attribute of an OSError.
        self.strerror = message


def is_public(one: Address) -> bool:
    """Tell whether an address is public, and not one of a metadata service."""
    if isinstance(one, ipaddress.IPv6Address) and one not in _UNICAST:
        return False
    return one.is_global and not one.is_multicast and not is_metadata(one)


def is_metadata(one: Address) -> bool:
    """Tell whether an address may be a cloud's metadata service: link-local, or a known one."""
    return one.is_link_local or any(one in network for network in _METADATA)


def names_metadata(host: str) -> bool:
    """Tell whether a name is one of a cloud's metadata service."""
    return _plain(host) in _METADATA_NAMES


def literal(host: str) -> Address | None:
    """Return the address that a host is, unless it is a name.

    ``2852039166``, ``0xa9fea9fe`` and ``169.254.43518`` are addresses, too (inet_aton(3)).
    """
    plain = _plain(host)
    try:
        if _NUMBERS.fullmatch(plain):
            return ipaddress.IPv4Address(socket.inet_aton(plain))
        return parsed(plain)
    except (OSError, ValueError):
        return None


def parsed(text: str) -> Address:
    """Read an address, with or without a zone.

    Raises:
        ValueError: the text is not an address.
    """
    one = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(one, ipaddress.IPv4Address):
        return one
    if any(one in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(int(one) & 0xFFFFFFFF)
    return one.sixtofour or one


def _plain(host: str) -> str:
    """Return a host in the form that a resolver or a proxy may read (RFC 3490, section 3.1)."""
    plain = unicodedata.normalize("NFKC", unquote(host)).replace("\u3002", ".").lower()
    return plain.strip("[]").rstrip(".")


_NUMBERS: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}", re.ASCII)
_METADATA_NAMES: Final = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"}
)
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""The part of IPv6 that is allocated for the internet; Python also counts unallocated parts as
global.
"""
_TRANSLATED: Final = tuple(
    ipaddress.IPv6Network(f"{prefix}/96")
    for prefix in (
        "::ffff:0:0",  # mapped
        "::ffff:0:0:0",  # translated (RFC 2765)
        "64:ff9b::",  # NAT64
        "64:ff9b:1::",  # the same, of one network's own (RFC 8215)
    )
)
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
