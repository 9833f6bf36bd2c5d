"""Listen on the webhook port, and leave it without hurting anybody.

Serving begins with the first certificate. At the end readiness goes off first, answers then close
their connections, and what is being reviewed is finished, within ``grace`` seconds; only then is
the port closed. Replicas on one machine share the port, so that one can go while another stays.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

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
        host, _, port = self._address.rpartition(":")
        runner = web.AppRunner(
            self._endpoint.application(),
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEP_ALIVE,
            shutdown_timeout=_LINGER,
        )
        await runner.setup()
        try:
            site = web.TCPSite(
                runner,
                host.strip("[]") or None,
                int(port),
                ssl_context=self._serving.context,
                reuse_port=True,
            )
            await site.start()
            logger.info("listening", extra={"address": self._address, "for": "admission"})
            self._listening.set()
            await asyncio.Event().wait()
        finally:
            if self._listening.is_set():
                self._listening.clear()
                await self._endpoint.drain(linger=_LINGER, grace=self._grace)
            await runner.cleanup()
