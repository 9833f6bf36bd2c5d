"""Listen on the webhook port, and leave it without hurting anybody.

Serving begins with the first certificate. At the end readiness goes off first, answers then close
their connections, and what is being reviewed is finished, within ``grace`` seconds; only then is
the port closed. Replicas on one machine share the port, so that one can go while another stays.

How many connections there are, and how long they may do nothing, is bounded (``certs.accepting``).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from certs import accepting
from certs.accepting import Acceptor
from certs.serving import Serving
from webhooks.server import Endpoint

logger = logging.getLogger(__name__)

_KEEP_ALIVE: Final = 120.0
"""Seconds; API servers give up idle connections after 90, and it is better that they do."""
_LINGER: Final = 0.3
"""Seconds in which idle connections are used once more, and told to close."""


class Listener:
    """A part of the manager that counts for readiness (``toolkit.kube.manager.Cache``)."""

    def __init__(
        self,
        endpoint: Endpoint,
        serving: Serving,
        *,
        address: str,
        certificate: Callable[[], Awaitable[None]],
        grace: float,
    ) -> None:
        self._endpoint = endpoint
        self._serving = serving
        self._address = address
        self._certificate = certificate
        self._grace = grace
        self._listening = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Tell whether it listens."""
        return self._listening.is_set()

    async def wait_synced(self) -> None:
        """Wait until it listens."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled, then drain."""
        await self._certificate()
        runner = web.AppRunner(
            self._endpoint.application(),
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEP_ALIVE,
            shutdown_timeout=_LINGER,
        )
        await runner.setup()
        try:
            await self._serve(_made_by(runner))
        finally:
            await runner.cleanup()

    async def _serve(self, make: Callable[[], asyncio.Protocol]) -> None:
        listening = accepting.bind(self._address)
        acceptor = Acceptor(make, self._serving.context, self._endpoint.connections)
        async with asyncio.TaskGroup() as group:
            accepted = group.create_task(acceptor.run(listening))
            logger.info("listening", extra={"address": self._address, "for": "admission"})
            self._listening.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._listening.clear()
                await self._endpoint.drain(linger=_LINGER, grace=self._grace)
                accepted.cancel()


def _made_by(runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
    if runner.server is None:
        raise AssertionError("setup makes the server")
    return runner.server
