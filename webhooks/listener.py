"""Listen on the webhook port, and close it without breaking a request.

Serving begins with the first certificate. At the end the process is first no longer ready, then its
answers close their connections, and reviews in progress are finished within ``grace`` seconds. Only
then the port is closed. Replicas on one machine share the port, so that one can end while another
serves.

Clients are bounded before they are known (``toolkit.net.listening``).
"""

import asyncio
from collections.abc import Awaitable, Callable

from certs.serving import Serving
from toolkit.net import listening
from webhooks.server import Endpoint


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
        async with listening.on(
            self._address,
            self._endpoint.application(),
            self._endpoint.connections,
            context=self._serving.context,
            shutdown_timeout=listening.LINGER,
        ):
            self._listening.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._listening.clear()
                await self._endpoint.drain(linger=listening.LINGER, grace=self._grace)
