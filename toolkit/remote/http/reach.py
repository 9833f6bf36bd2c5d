"""Connection pools of aiohttp that connect only to allowed addresses (``toolkit.remote.dialling``).

The resolver of the pool refuses a name if one of its addresses is not allowed. Every address,
including one in a URL, is checked again when its socket is created.

Names are resolved in separate threads, because the owner of a name decides how long that takes.
"""

import asyncio
import contextlib
import functools
import socket
import weakref
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from toolkit.net import tlsbuffers
from toolkit.remote import dialling
from toolkit.remote.dialling import Known, OutOfReachError, Reach, literal_within
from toolkit.remote.http.strangers import Strangers

__all__ = [
    "Known",
    "OutOfReachError",
    "Reach",
    "Resolver",
    "connector",
    "dial",
    "literal_within",
    "strangers",
]


def connector(reach: Reach, *, known: Known | None = None, **options: Any) -> aiohttp.TCPConnector:
    """Return a pool that connects only to allowed addresses; ``known`` records public hosts."""
    return _Pool(reach, known or Known(), **options)


class _Pool(aiohttp.TCPConnector):
    """A pool of connections whose end waits for no other side."""

    def __init__(self, reach: Reach, known: Known, **options: Any) -> None:
        tlsbuffers.limit()
        self._reach = reach
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(
            resolver=Resolver(reach, known), socket_factory=self._open_socket, **options
        )

    def _open_socket(self, place: aiohttp.AddrInfoType) -> socket.socket:
        """Make the socket for an address that is about to be dialled."""
        family, kind, protocol, _, address = place
        dialling.require(str(address[0]), [str(address[0])], self._reach)
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close every connection, also those of cancelled requests.

        The pool forgets the connection of a cancelled request, while TLS still waits for the other
        side's end, for up to half a minute.
        """
        await super().close(abort_ssl=abort_ssl)
        ending = list(self._made)
        for made in ending:
            with contextlib.suppress(OSError):  # It is closed, or was never connected.
                made.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while any(made.fileno() >= 0 for made in ending):  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_LOOK_SECONDS)


class Resolver(AbstractResolver):
    """Resolves names to allowed addresses only, and records the results."""

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
        dialling.require(host, [entry["host"] for entry in found], self._reach, self._known)
        return found

    async def close(self) -> None:
        """Do nothing: the threads serve all resolvers."""


@functools.cache
def strangers() -> Strangers:
    """Return the threads for slow operations of untrusted hosts.

    Files are read and hashed in other threads, so that slow hosts do not block them.
    """
    return Strangers()


_CLOSE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.001


async def dial(host: str, port: int, reach: Reach) -> socket.socket:
    """Connect to the first address of a host that answers; the caller sets a deadline.

    Raises:
        OutOfReachError: one of its addresses is not allowed.
        OSError: no address answers, or there is no such host.
    """
    failure: OSError = TimeoutError("timed out")
    for found in await Resolver(reach, Known()).resolve(host, port, socket.AF_UNSPEC):
        made = socket.socket(found["family"], socket.SOCK_STREAM)
        made.setblocking(False)  # noqa: FBT003 - of the standard library
        try:
            address = (found["host"], found["port"])
            await asyncio.get_running_loop().sock_connect(made, address)
        except OSError as exc:
            made.close()
            failure = exc
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


async def _looked_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    lookup = functools.partial(
        socket.getaddrinfo,
        host,
        port,
        type=socket.SOCK_STREAM,
        family=family,
        flags=socket.AI_ADDRCONFIG,
    )
    found = await asyncio.wrap_future(strangers().look_up(host, lookup))
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
