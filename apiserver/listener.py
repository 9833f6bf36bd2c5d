"""Listen, and close the port without breaking a request.

At the end the process is first no longer ready, while it answers as before: endpoints and proxies
need a moment to notice (``--shutdown-delay-duration``). Then no connection is accepted any more,
requests on old connections are told to go elsewhere, watches end, and requests in progress are
finished, within ``grace`` seconds. Replicas on one machine share the port, so that one can end
while another serves.

Clients are bounded before they are known: connections and handshakes (``toolkit.net.listening``),
the size of headers, and the time that they take.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.server import Server
from certs.serving import Serving
from toolkit.net import listening

_MAX_LINE: Final = 64 << 10
"""Bytes of a request line, and of one header: selectors may be long."""
_MAX_HEADERS: Final = 512
"""Lines; a user's groups come one by one."""
_FAREWELLS: Final = 5.0
"""Seconds over which watches are ended, so that not all come back at once elsewhere."""


class Listener:
    """A part of the manager that counts for readiness (``toolkit.kube.manager.Cache``)."""

    def __init__(  # noqa: PLR0913 - where, with what, and how to end
        self,
        server: Server,
        serving: Serving,
        *,
        address: str,
        certificate: Callable[[], Awaitable[None]],
        delay: float,
        grace: float,
    ) -> None:
        self._server = server
        self._serving = serving
        self._address = address
        self._certificate = certificate
        self._delay = delay
        self._grace = grace
        self._listening = asyncio.Event()
        self._left = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Tell whether the process listens and is not shutting down."""
        return self._listening.is_set()

    async def wait_synced(self) -> None:
        """Wait until it listens."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._certificate()
        async with listening.on(
            self._address,
            self._server.application(),
            self._server.connections,
            context=self._serving.context,
            # Cancel the handler when the client disconnects.
            handler_cancellation=True,
            shutdown_timeout=listening.LINGER,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            max_headers=_MAX_HEADERS,
        ) as accepted:
            self._listening.set()
            try:
                await self._left.wait()
                accepted.cancel()
                # Requests in progress continue.
                await asyncio.Event().wait()
            finally:
                self._listening.clear()

    async def finish(self) -> None:
        """Leave the port to others: see the module."""
        if not self._listening.is_set():
            return
        self._listening.clear()
        self._server.connections.retire()
        await asyncio.sleep(self._delay)
        self._left.set()
        self._server.closed = True
        await self._server.end_watches(over=min(self._delay, _FAREWELLS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._server.wait_idle()
                await asyncio.sleep(listening.LINGER)
