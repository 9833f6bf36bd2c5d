"""The open connections of a server that every client can reach: their limit, and which to close.

Most idle connections serve no purpose: they never sent a request, or send one byte at a time. So a
connection may be closed whenever it has no request in progress. At the limit, one of them makes
room for a new one: first the oldest that never had a request, unless it has only just begun, then
the one that has been idle for the longest time. Connections with a request in progress stay.
Clients whose idle connection was closed open another one, as API servers do.

The server says when a connection is busy (``work``, ``rest``): from the complete request to the end
of the answer.
"""

import asyncio
import contextlib
import resource
import select
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final, cast

import prometheus_client

DROPPED: Final = prometheus_client.Counter(
    "penstock_connections_dropped", "Connections that were closed on clients.", ("reason",)
)
"""``reason`` is handshake (not finished in time, or too many), idle (closed for a new one), silent
(no request in time), or large (more bytes than a request may have).
"""
_MOST: Final = 1024
_LOOK: Final = 0.01
_QUIET: Final = 50
"""Looks without a request, after which none is expected on any connection.

Looks and not seconds, because while this process waits for a processor it sees no requests.
"""
_PATIENCE: Final = 200
"""Looks, after which connections are closed although requests keep arriving on others."""
GRACE: Final = 0.5
"""Seconds in which an honest client finishes the handshake and sends its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of open connections and, in addition, of unfinished handshakes.

    - ``handshake_seconds`` is the limit of a handshake; an API server waits as long.
    - ``request_seconds`` is the time in which the first request must begin, and then the time in
      which it must be complete. Clients open connections ahead and use them later.
    - ``answer_seconds`` is the time in which a client must read an answer.
    - ``request_bytes`` limits the bytes of a connection between two complete requests, besides the
      bodies that its server expects. A parser limits each header, but not their number. 0 means no
      limit.
    """

    connections: int = _MOST
    handshakes: int = 256
    handshake_seconds: float = 10.0
    request_seconds: float = 10.0
    answer_seconds: float = 30.0
    request_bytes: int = 0

    @classmethod
    def fitting(cls, most: int = _MOST, *, request_bytes: int = 0) -> "Limits":
        """Return the usual limits, or less if the process may not open as many files."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = files if files > 0 else most * 4
        return cls(
            connections=min(most, few // 2),
            handshakes=min(256, few // 8),
            request_bytes=request_bytes,
        )


class Connections:
    """Knows the connections of one server, from the end of the handshake to their own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._fresh: OrderedDict[asyncio.BaseTransport, _Fresh] = OrderedDict()
        self._resting: OrderedDict[asyncio.BaseTransport, None] = OrderedDict()
        self._busy: set[asyncio.BaseTransport] = set()
        self._bytes: Counter[asyncio.BaseTransport] = Counter()
        self._heard: set[asyncio.BaseTransport] = set()
        self._begun = 0
        self._changed = asyncio.Event()
        self.retiring = False

    def __len__(self) -> int:
        return len(self._fresh) + len(self._resting) + len(self._busy)

    async def room(self) -> None:
        """Wait until one more connection is allowed; if possible, close an idle one."""
        while len(self) >= self.limits.connections:
            if not self.drop():
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE):
                        await self._changed.wait()

    def drop(self) -> bool:
        """Close the connection that is of the least use; tell whether there was one."""
        oldest = next(iter(self._fresh.items()), None)
        if oldest is not None and oldest[1].since + GRACE <= _now():
            going = oldest[0]
        elif self._resting:
            going = next(iter(self._resting))
        else:
            return False
        self._end(going, "idle")
        return True

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """Count a connection that has just been made."""
        timer = self._timer(transport, self.limits.request_seconds)
        self._fresh[transport] = _Fresh(since=_now(), timer=timer)

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection."""
        fresh = self._fresh.pop(transport, None)
        if fresh is not None:
            fresh.timer.cancel()
        self._resting.pop(transport, None)
        self._busy.discard(transport)
        self._bytes.pop(transport, None)
        self._heard.discard(transport)
        self._changed.set()

    def received(self, transport: asyncio.BaseTransport, size: int) -> bool:
        """Count received bytes; return False if there are too many and the connection is closed."""
        if transport not in self._heard:
            self._heard.add(transport)
            self._begin(transport)
        if not self.limits.request_bytes:
            return True
        self._bytes[transport] += size
        if self._bytes[transport] <= self.limits.request_bytes:
            return True
        self._end(transport, "large")
        return False

    def expect(self, transport: asyncio.BaseTransport | None, size: int) -> None:
        """Let a connection send so many bytes more: the body of a request whose head has come."""
        if transport is not None:
            self._bytes[transport] = -size

    def work(self, transport: asyncio.BaseTransport | None) -> None:
        """Keep a connection open from now on, because a request of it has come whole."""
        self._begun += 1
        if transport is not None and (transport in self._fresh or transport in self._resting):
            self.closed(transport)
            self._busy.add(transport)

    def rest(self, transport: asyncio.BaseTransport | None) -> None:
        """Let a connection go again, because the answer is sent."""
        if transport in self._busy:
            self._busy.discard(transport)
            self._heard.discard(transport)
            self._resting[transport] = None
            self._changed.set()

    def retire(self) -> None:
        """From now on have each answer say that it is the last one of its connection.

        The client then opens its next connection to another replica.
        """
        self.retiring = True

    async def leave(self) -> None:
        """Close idle connections, at a moment in which no data arrives on any.

        A client does not repeat a request if its connection is closed meanwhile, and while requests
        arrive the next one may be on its way. So wait until none has arrived for a while, but not
        forever. A request that arrives nevertheless is answered before its connection is closed.
        """
        self.retire()
        begun, quiet = self._begun, 0
        for look in range(_PATIENCE + _QUIET):
            quiet, begun = (quiet + 1 if begun == self._begun else 0), self._begun
            if not self._busy and (quiet >= _QUIET or look >= _PATIENCE or not self):
                self._leave_all()
            if not self:
                return
            await asyncio.sleep(_LOOK)

    def _leave_all(self) -> None:
        """Close every connection on which no data arrives."""
        for transport in (*self._resting, *self._fresh):
            if transport not in self._heard and not _unread(transport):
                self.closed(transport)
                transport.close()

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        """Give a request that begins its time, if it is the connection's first."""
        if fresh := self._fresh.get(transport):
            fresh.timer.cancel()
            timer = self._timer(transport, self.limits.request_seconds)
            self._fresh[transport] = _Fresh(since=fresh.since, timer=timer)

    def _timer(self, transport: asyncio.BaseTransport, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._late, transport)

    def _late(self, transport: asyncio.BaseTransport) -> None:
        """Close a connection that sent no request in time, unless there is data to read.

        Received data may not have been read yet, because this process waited for a processor.
        """
        fresh = self._fresh.get(transport)
        if fresh is not None and transport not in self._heard and _unread(transport):
            timer = self._timer(transport, _LOOK)
            self._fresh[transport] = _Fresh(since=fresh.since, timer=timer)
        else:
            self._end(transport, "silent")

    def _end(self, transport: asyncio.BaseTransport, reason: str) -> None:
        self.closed(transport)
        DROPPED.labels(reason).inc()
        cast("asyncio.Transport", transport).abort()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fresh:
    since: float
    timer: asyncio.TimerHandle


def _unread(transport: asyncio.BaseTransport) -> bool:
    """Tell whether the kernel has bytes, or the end, that the event loop has not read yet."""
    made = transport.get_extra_info("socket")
    if made is None or made.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(made.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _now() -> float:
    return asyncio.get_running_loop().time()
