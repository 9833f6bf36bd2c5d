"""Connect to hosts that users and servers name, if their addresses are allowed.

Users name servers and proxies, and servers name other servers. Two rules limit the addresses:

1. No name may resolve to the metadata service of the node, which gives out the node's identity.
2. A public server may not name a private address: with a redirect, a realm or a submodule it would
   make us contact, from inside, what the server itself cannot reach.

Both rules apply to the address that is dialled, not to the name, so a name that changes in between
gains nothing. ``connect`` is for threads, ``toolkit.remote.http.reach`` for aiohttp. A proxy
resolves names itself, so through a proxy only literal addresses can be checked.
"""

import enum
import socket
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from toolkit.remote import addresses
from toolkit.remote.addresses import Address, OutOfReachError

__all__ = ["Known", "OutOfReachError", "Reach", "connect", "literal_within", "require"]


class Reach(enum.IntEnum):
    """Which addresses may be dialled; a greater one is narrower."""

    ANYWHERE = 0
    NOT_METADATA = 1
    PUBLIC = 2


class Known:
    """Which hosts have public addresses, as they were resolved here; the most recent are kept."""

    def __init__(self) -> None:
        self._public: OrderedDict[str, bool] = OrderedDict()

    def note(self, host: str, *, public: bool) -> None:
        """Record the addresses of a host; a host that was public once counts as public."""
        self._public[host] = public or self._public.get(host, False)
        self._public.move_to_end(host)
        while len(self._public) > _KNOWN:
            self._public.popitem(last=False)

    def is_public(self, host: str) -> bool:
        """Tell whether the host is on the internet; a name that a proxy resolves counts as that."""
        literal = addresses.literal(host)
        return addresses.is_public(literal) if literal else self._public.get(host, True)

    def reach(self, origin: str, target: str) -> Reach:
        """Return the addresses to which the host ``origin`` may lead us (rules 1 and 2)."""
        far = origin != target and self.is_public(origin)
        return Reach.PUBLIC if far else Reach.NOT_METADATA


def connect(
    place: tuple[str, int], *, timeout: float, reach: Reach, known: Known | None = None
) -> socket.socket:
    """Connect to the first address of a host that answers, within ``timeout`` seconds in total.

    The returned socket has this timeout for each step; ``known`` records whether the host is
    public.

    Raises:
        OutOfReachError: one of its addresses is not allowed.
        OSError: no address answers, or there is no such host.
    """
    end = time.monotonic() + timeout
    host = place[0]
    found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
    require(host, [str(address[0]) for *_, address in found], reach, known)
    failure: OSError = TimeoutError("timed out")
    for *_, address in found:  # a name may have a great many
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            connection = socket.create_connection((str(address[0]), int(address[1])), left)
        except OSError as exc:
            failure = exc
        else:
            connection.settimeout(timeout)
            return connection
    raise failure


def require(host: str, found: Iterable[str], reach: Reach, known: Known | None = None) -> None:
    """Refuse a host unless all the addresses that were found for it are within reach.

    Raises:
        OutOfReachError: one is not.
    """
    places = [addresses.parsed(text) for text in found]
    if known is not None:
        known.note(host, public=any(addresses.is_public(one) for one in places))
    if not all(_within(one, reach) for one in places):
        raise OutOfReachError(f"'{host}' is {out_of(reach)}")


def literal_within(host: str, reach: Reach) -> bool:
    """Tell whether a host that is not resolved here is allowed.

    It may be an address, or the name of a metadata service, which a proxy may resolve.
    """
    if addresses.names_metadata(host):
        return reach is Reach.ANYWHERE
    literal = addresses.literal(host)
    return literal is None or _within(literal, reach)


def out_of(reach: Reach) -> str:
    """Return a description of an address that is not allowed."""
    return "a private address" if reach is Reach.PUBLIC else "a metadata service's address"


_KNOWN: Final = 4096


def _within(one: Address, reach: Reach) -> bool:
    match reach:
        case Reach.ANYWHERE:
            return True
        case Reach.NOT_METADATA:
            return not addresses.is_metadata(one)
        case Reach.PUBLIC:
            return addresses.is_public(one)
