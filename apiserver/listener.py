"""Listen, and leave the port without hurting anybody.

At the end readiness goes off first, while requests are answered as before: endpoints and proxies
take a moment to notice (``--shutdown-delay-duration``). Then nobody is accepted any more, requests
on old connections are sent elsewhere, watches are ended, and what is being answered is finished,
within ``grace`` seconds. Replicas on one machine share the port, so that one can go while another
stays.

What anybody may do is bounded before anybody is known: connections and handshakes
(``certs.accepting``), the size of headers, and the time that they take.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from apiserver.server import Server
from certs import accepting
from certs.accepting import Acceptor
from certs.serving import Serving

logger = logging.getLogger(__name__)

_KEEP_ALIVE: Final = 120.0
"""Seconds; API servers give up idle connections after 90, and it is better that they do."""
_MAX_LINE: Final = 64 << 10
"""Bytes of a request line, and of one header: selectors may be long."""
_MAX_HEADERS: Final = 512
"""Lines; a user's groups come one by one."""
_FAREWELLS: Final = 5.0
"""Seconds over which watches are ended, so that not all come back at once elsewhere."""
_LINGER: Final = 0.3
"""Seconds in which idle connections are used once more, and told to close."""


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
        """Tell whether it listens, and goes on doing so."""
        return self._listening.is_set()

    async def wait_synced(self) -> None:
        """Wait until it listens."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._certificate()
        runner = web.AppRunner(
            self._server.application(),
            access_log=None,
            logger=_protocol_log(),
            handle_signals=False,
            # Whoever goes away is not worked for.
            handler_cancellation=True,
            keepalive_timeout=_KEEP_ALIVE,
            shutdown_timeout=_LINGER,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            max_headers=_MAX_HEADERS,
            auto_decompress=False,
        )
        await runner.setup()
        if runner.server is None:
            raise AssertionError("setup makes the server")
        acceptor = Acceptor(runner.server, self._serving.context, self._server.connections)
        listening = accepting.bind(self._address)
        logger.info("listening", extra={"address": self._address, "for": "the API"})
        self._listening.set()
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(acceptor.run(listening))
                await self._left.wait()
                serving.cancel()
                # What is being answered goes on.
                await asyncio.Event().wait()
        finally:
            self._listening.clear()
            await runner.cleanup()

    async def finish(self) -> None:
        """Leave the port to others: see the module."""
        if not self._listening.is_set():
            return
        self._listening.clear()
        self._server.stopping = True
        await asyncio.sleep(self._delay)
        self._left.set()
        self._server.closed = True
        await self._server.end_watches(over=min(self._delay, _FAREWELLS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._server.wait_idle()
                await asyncio.sleep(_LINGER)


def _protocol_log() -> logging.Logger:
    """Return where errors of the protocol are told, without the bytes that they were about.

    Those of a malformed header may be a credential.
    """

    def without_content(record: logging.LogRecord) -> bool:
        error = record.exc_info[0] if record.exc_info else None
        record.error = error.__name__ if error else ""
        record.exc_info = record.exc_text = None
        return True

    log = logging.Logger(f"{__name__}.protocol")  # noqa: LOG001 - each has one filter, its own
    log.parent = logger
    log.addFilter(without_content)
    return log
