"""A real NATS server on loopback, and who hears what is published there."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.fakes import objectservers
from tests.fakes.serving import free_port


@asynccontextmanager
async def nats(
    program: Path, directory: Path, config: str = "", *, authority: trustme.CA | None = None
) -> AsyncIterator[int]:
    """Run a server with a configuration, with TLS for localhost if an authority is given."""
    file, port = directory / "nats.conf", free_port()
    lines = [f"listen: 127.0.0.1:{port}", config]
    if authority is not None:
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(directory / "key.pem")
        issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
        lines.append(
            f'tls {{ cert_file: "{directory}/cert.pem", key_file: "{directory}/key.pem" }}'
        )
    await asyncio.to_thread(file.write_text, "\n".join(lines))
    async with objectservers.running((str(program), "-c", str(file)), port, directory, {}):
        yield port


class Listener:
    """Hears the messages of a subject."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int, subject: str, **login: str) -> "Listener":
        """Subscribe to a subject."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()
        options = {"verbose": False, "headers": True, "no_responders": False, **login}
        writer.write(f"CONNECT {json.dumps(options)}\r\nSUB {subject} 1\r\nPING\r\n".encode())
        while (line := await reader.readline()) != b"PONG\r\n":
            assert line, "the server ended the connection"
        return cls(reader, writer)

    async def hear(self) -> tuple[Mapping[str, str], Any]:
        """Return headers and body of the next message."""
        async with asyncio.timeout(30):
            while not (line := await self._reader.readline()).startswith(b"HMSG"):
                assert line, "the server ended the connection"
            head, whole = map(int, line.split()[-2:])
            found = await self._reader.readexactly(whole + 2)
        lines = found[:head].decode().splitlines()[1:]
        headers = dict(each.split(": ", 1) for each in lines if each)
        return headers, json.loads(found[head:whole])

    async def close(self) -> None:
        """Unsubscribe."""
        self._writer.close()
        await self._writer.wait_closed()
