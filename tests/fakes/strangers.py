"""Somebody who opens a connection, and means no good by it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from aiohttp import web

from tests.fakes import virtualtime
from tests.fakes.serving import free_port
from toolkit.kube import manager
from toolkit.net.connections import Limits

MALFORMED = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-42\x01\r\n\r\n"
"""Has a character in its header that a parser may write down when it refuses it."""


class Stranger:
    """One connection to a port on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, *, tls: ssl.SSLContext | None = None) -> "Stranger":
        """Open a connection, and say nothing on it."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))

    async def send(self, content: bytes) -> None:
        """Say something, if anybody listens."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(content)
            await self.writer.drain()

    async def answer(self) -> bytes:
        """Return what comes until the server closes the connection."""
        found = b""
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while block := await self.reader.read(1 << 16):
                    found += block
        return found

    async def ended(self) -> None:
        """Wait until the server closes the connection without an answer."""
        assert await self.answer() == b""

    async def close(self) -> None:
        """Give the connection up."""
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def served(app: web.Application, limits: Limits) -> AsyncIterator[int]:
    """Serve an application as a process of ours does, and give the port."""
    port = free_port()
    running = asyncio.create_task(manager.serve(app, f"127.0.0.1:{port}", limits))
    await virtualtime.settle()
    try:
        yield port
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
