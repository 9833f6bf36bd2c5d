"""How far users and servers may lead us: which addresses a URL, a redirect or a realm may have.

Nobody leads to the metadata service of the node that we run on, which tells who we are. A redirect
from the internet into the cluster would make us ask, from where we stand, what the server itself
cannot reach. The check sits in the resolver of a connection pool: the address that was looked at is
the one that is dialled, so a name that changes in between gains nothing.

Names are looked up in threads of their own: whoever owns a name decides how long that takes.
"""

import asyncio
import enum
import functools
import socket
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from toolkit.remote import addresses
from toolkit.remote.addresses import Address, OutOfReachError

__all__ = ["Known", "OutOfReachError", "Reach", "Resolver", "literal_within", "threads"]


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
        """Remember how a name was resolved; what was public once stays so."""
        self._public[host] = public or self._public.get(host, False)
        self._public.move_to_end(host)
        while len(self._public) > _KNOWN:
            self._public.popitem(last=False)

    def is_public(self, host: str) -> bool:
        """Tell whether the host is on the internet; a name that a proxy resolves counts as that."""
        literal = addresses.literal(host)
        return addresses.is_public(literal) if literal else self._public.get(host, True)


class Resolver(AbstractResolver):
    """Resolves names to addresses within reach only, and notes what it saw."""

    def __init__(self, reach: Reach, known: Known) -> None:
        self._reach = reach
        self._known = known

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return where ``host`` is.

        Raises:
            OutOfReachError: any of its addresses is not within reach.
        """
        found = await _looked_up(host, port, family)
        places = [addresses.parsed(entry["host"]) for entry in found]
        self._known.note(host, public=any(addresses.is_public(one) for one in places))
        if not all(_within(one, self._reach) for one in places):
            what = "a private" if self._reach is Reach.PUBLIC else "a metadata service's"
            raise OutOfReachError(f"'{host}' is {what} address")
        return found

    async def close(self) -> None:
        """Do nothing: the threads serve all resolvers."""


@functools.cache
def threads() -> ThreadPoolExecutor:
    """Return the threads for what strangers can make last: lookups, and handshakes of proxies.

    Files are read and digests made in others, which have no room for those who wait.
    """
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="strangers")


def literal_within(host: str, reach: Reach) -> bool:
    """Tell whether a host that is an address itself, which nobody resolves, is within reach."""
    literal = addresses.literal(host)
    return literal is None or _within(literal, reach)


_KNOWN: Final = 4096
_THREADS: Final = 64


def _within(one: Address, reach: Reach) -> bool:
    match reach:
        case Reach.ANYWHERE:
            return True
        case Reach.NOT_METADATA:
            return not addresses.is_metadata(one)
        case Reach.PUBLIC:
            return addresses.is_public(one)


async def _looked_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    lookup = functools.partial(
        socket.getaddrinfo,
        host,
        port,
        type=socket.SOCK_STREAM,
        family=family,
        flags=socket.AI_ADDRCONFIG,
    )
    found = await asyncio.get_running_loop().run_in_executor(threads(), lookup)
    return [
        ResolveResult(
            hostname=host,
            host=str(place[0]),
            port=int(place[1]),
            family=kind,
            proto=protocol,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, protocol, _, place in found
    ]
