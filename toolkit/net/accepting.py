"""Accept connections within bounds, so that no client exhausts the files of a process.

asyncio's own server accepts every connection: one that begins a TLS handshake holds a file for a
minute, and one that sends no request holds it forever. Here

1. a handshake has a deadline. At the limit of unfinished ones, the oldest ends for a new one,
   unless it has only just begun: an honest client finishes it within milliseconds;
2. connections are counted, and at their limit one without a request ends (``connections``);
3. if all connections have a request in progress, none is accepted, and clients wait in the backlog
   of the kernel.

The protocol that ``make`` returns handles what is sent on a connection.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from toolkit.net import syns, tlsbuffers
from toolkit.net.connections import DROPPED, GRACE, Connections

logger = logging.getLogger(__name__)

_BACKLOG: Final = 256
_PAUSE: Final = 0.5
_CLOSE_SECONDS: Final = 2.0
_TURNS: Final = 50
"""Looks at the end for clients that are on their way, and at handshakes that are unfinished."""
_QUIET: Final = 5
"""Looks without a client, after which none is expected any more."""
_ABSENT: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


class Acceptor:
    """Accepts connections on bound sockets until cancelled."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        connections: Connections,
    ) -> None:
        self._make = make
        self._context = context
        self._connections = connections
        self._handshakes: OrderedDict[asyncio.Task[None], float] = OrderedDict()

    async def run(self, listening: Sequence[socket.socket]) -> None:
        """Accept on these sockets; they are closed at the end, open connections are not.

        At the end the kernel begins no more connections, and those that it has begun are accepted,
        because closing would reset them (``syns``). Handshakes in progress then have a moment to
        finish.
        """
        if self._context is not None:
            tlsbuffers.limit()
        try:
            async with asyncio.TaskGroup() as group:
                for each in listening:
                    group.create_task(self._accept(each))
        finally:
            try:
                await self._accept_last(listening)
            finally:
                for each in listening:
                    each.close()
            await self._finish()

    async def _accept_last(self, listening: Sequence[socket.socket]) -> None:
        """Begin the handshakes of clients that are on their way, until there are none."""
        for each in listening:
            syns.drop(each)
        quiet = 0
        for _ in range(_TURNS):
            quiet = 0 if sum(map(self._accept_rest, listening)) else quiet + 1
            if quiet > _QUIET:
                break
            await asyncio.sleep(GRACE / _TURNS)

    async def _finish(self) -> None:
        """Wait for handshakes, and end those that take longer."""
        tasks = list(self._handshakes)
        try:
            # Turns of the loop and not seconds: a process that waits for a processor sees nothing.
            for _ in range(_TURNS):
                if all(task.done() for task in tasks):
                    break
                await asyncio.sleep(GRACE / _TURNS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            await self._turn()  # 1.
            await self._connections.room()  # 2., 3.
            try:
                accepted = await _accepted(listening)
            except OSError as exc:
                # No more files, or the client has gone already.
                logger.error("not accepted", extra={"error": str(exc)})  # noqa: TRY400 - one line
                self._connections.drop()
                await asyncio.sleep(_PAUSE)
                continue
            self._begin(accepted)
            # Others get their turn, however many there are to accept.
            await asyncio.sleep(0)

    def _accept_rest(self, listening: socket.socket) -> int:
        """Begin the handshakes of clients in the backlog; return their number."""
        number = 0
        while len(self._handshakes) < self._connections.limits.handshakes:
            try:
                accepted, _ = listening.accept()
            except OSError:
                break
            self._begin(accepted)
            number += 1
        return number

    def _begin(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        unless_begun = contextlib.ExitStack()
        unless_begun.enter_context(accepted)
        accepted.setblocking(False)  # noqa: FBT003 - the standard library's signature
        task = loop.create_task(self._handshake(accepted, unless_begun))
        self._handshakes[task] = loop.time()
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))
        # One that is cancelled before it begins closes nothing by itself.
        task.add_done_callback(functools.partial(_close, unless_begun))

    async def _turn(self) -> None:
        """Wait until one more handshake may begin."""
        while len(self._handshakes) >= self._connections.limits.handshakes:
            oldest, since = next(iter(self._handshakes.items()))
            left = since + GRACE - asyncio.get_running_loop().time()
            if left <= 0:
                del self._handshakes[oldest]
                oldest.cancel()
                DROPPED.labels("handshake").inc()
            else:
                await asyncio.wait(
                    self._handshakes, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )

    async def _handshake(self, accepted: socket.socket, unless_begun: contextlib.ExitStack) -> None:
        unless_begun.pop_all()
        tls = self._context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Counted(self._make, self._connections),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._connections.limits.handshake_seconds if tls else None,
                ssl_shutdown_timeout=_CLOSE_SECONDS if tls else None,
            )
        except OSError as exc:  # of TLS and of time are among them
            DROPPED.labels("handshake").inc()
            logger.debug("no handshake", extra={"error": str(exc)})


def _close(stack: contextlib.ExitStack, _: asyncio.Task[None]) -> None:
    stack.close()


async def _accepted(listening: socket.socket) -> socket.socket:
    """Accept one connection; asyncio's own way loses one when it is cancelled at that moment."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError):
            ready = asyncio.Event()
            loop.add_reader(listening, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(listening)
        else:
            return accepted


def bind(address: str, *, shared: bool = True) -> list[socket.socket]:
    """Listen on ``host:port``, or ``:port`` for all addresses.

    ``shared`` allows other processes of the same user to listen too.

    Raises:
        OSError: this machine does not have the address, or another process does not share it.
    """
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(
        host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listening: list[socket.socket] = []
    absent: list[OSError] = []
    with contextlib.ExitStack() as unless:
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                listening.append(unless.enter_context(_listen(family, place, shared=shared)))
            except OSError as exc:
                # The kernel may have no IPv6. But if another process has the address, it would get
                # our clients.
                if exc.errno not in _ABSENT:
                    raise
                absent.append(exc)
        if not listening:
            raise absent[0]
        unless.pop_all()
    return listening


def _listen(family: int, place: Any, *, shared: bool) -> socket.socket:
    with contextlib.ExitStack() as unless:
        one = unless.enter_context(socket.socket(family, socket.SOCK_STREAM))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
        one.listen(_BACKLOG)
        one.settimeout(0)
        unless.pop_all()
    return one


class _Counted(asyncio.Protocol):
    """Forwards everything to a protocol, and reports the beginning and end of the connection."""

    def __init__(self, make: Callable[[], asyncio.Protocol], connections: Connections) -> None:
        self._make = make
        self._connections = connections
        self._inner: asyncio.Protocol
        self._transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.opened(transport)
        self._inner = self._make()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._connections.received(self._transport, len(data)):
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.closed(self._transport)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
