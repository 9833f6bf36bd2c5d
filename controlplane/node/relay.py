"""Lead connections that arrive in a node's network to the API server on this machine's loopback.

``python -m controlplane.node.relay PID PORT`` listens on PORT in the network namespace of PID and
connects to 127.0.0.1:PORT in our own. So pods reach the API server, and still nobody else's machine
does. It passes bytes on; who may do what, client and server settle with TLS between them.
"""

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from controlplane.node import namespaces

_CHUNK: Final = 1 << 16


def main() -> None:
    """Serve until the process is ended."""
    pid, port = map(int, sys.argv[1:])
    asyncio.run(_serve(_listen(pid, port), port))


def _listen(pid: int, port: int) -> socket.socket:
    # A socket stays in the namespace that it was made in, wherever its process goes.
    with Path("/proc/self/ns/net").open("rb") as home:
        namespaces.join(pid, "net")
        try:
            return socket.create_server(("0.0.0.0", port))  # noqa: S104 - the node's own network
        finally:
            namespaces.enter(home.fileno(), "net")


async def _serve(listening: socket.socket, port: int) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The API server may be down, and either side may leave at any time.
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
        writer.close()

    server = await asyncio.start_server(handle, sock=listening)
    await server.serve_forever()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()


if __name__ == "__main__":
    main()
