"""The conversion endpoint over TLS in a thread of its own, which a test may stop and start."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Sequence
from typing import Any

import trustme
from msgspec import Struct

from crds import manifest
from crds.kind import Kind
from tests.fakes.serving import certified, free_port
from tests.tools import sockets
from toolkit.net import listening
from webhooks.conversion import Conversions
from webhooks.server import Endpoint, Reviews


class ConversionServer:
    """Serves ``/convert`` on loopback, always at the same port."""

    def __init__(self, kinds: Sequence[Kind[Struct]]) -> None:
        self._converted = Conversions(kinds).convert
        self._authority = trustme.CA()
        self.port = free_port()
        self.asked: set[str] = set()
        """The kinds that it was asked to convert."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """Return where it serves, without a path."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def bundle(self) -> bytes:
        """Return the authority to trust, as PEM."""
        return self._authority.cert_pem.bytes()

    @property
    def conversion(self) -> dict[str, Any]:
        """Return the ``spec.conversion`` that leads here."""
        encoded = base64.b64encode(self.bundle).decode()
        return manifest.conversion({"url": f"{self.url}/convert", "caBundle": encoded})

    def start(self) -> None:
        """Serve."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def stop(self) -> None:
        """Serve no more, as the webhook process ends."""
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)
            assert not self._thread.is_alive()
            self._thread = self._loop = self._stopping = None

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        context = certified(self._authority, "127.0.0.1")
        endpoint = Endpoint(Reviews({}), convert=self._convert)
        address, application = f"127.0.0.1:{self.port}", endpoint.application()
        async with listening.on(address, application, endpoint.connections, context=context):
            ready.set()
            await self._stopping.wait()
        await sockets.end(self.port)

    async def _convert(self, body: bytes) -> bytes:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            self.asked |= {each["kind"] for each in json.loads(body)["request"]["objects"]}
        return await self._converted(body)
