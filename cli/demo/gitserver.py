"""A real Git server on loopback: smart HTTP with ``git http-backend`` (gitprotocol-http(5)).

It is only for the demo and the bench; the product itself never runs git. The backend uses CGI (RFC
3875): request in environment and stdin, headers and body on stdout. Answers are streamed, so a
large pack is never held in memory.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

_CHUNK: Final = 1 << 16
_PASSED_ON: Final = {
    "Content-Type": "CONTENT_TYPE",
    "Content-Length": "CONTENT_LENGTH",
    "Content-Encoding": "HTTP_CONTENT_ENCODING",
    "Git-Protocol": "GIT_PROTOCOL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitServer:
    """Serves every bare repository below a directory; pushes to those that accept them."""

    address: str

    def url(self, repository: str) -> str:
        """Return the clone URL of ``<root>/<repository>``."""
        return f"http://{self.address}/{repository}"


@asynccontextmanager
async def serve(root: Path, *, port: int = 0) -> AsyncIterator[GitServer]:
    """Serve the repositories below ``root`` until the block ends; port 0 lets the kernel choose."""
    app = web.Application(client_max_size=0)

    async def handle(request: web.Request) -> web.StreamResponse:
        return await _run_backend(root, request)

    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        host, bound = runner.addresses[0][:2]
        yield GitServer(address=f"{host}:{bound}")
    finally:
        await runner.cleanup()


async def _run_backend(root: Path, request: web.Request) -> web.StreamResponse:
    process = await asyncio.create_subprocess_exec(
        *("git", "http-backend"),
        env=_environment(root, request),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    feeding = asyncio.create_task(_feed(process, request))
    response = web.StreamResponse()
    try:
        await _answer(process, request, response)
    except ConnectionResetError:
        pass  # The client has heard enough.
    finally:
        feeding.cancel()
        # Its pipes are closed, so it ends by itself. Never poll it, because then asyncio would find
        # no child to wait for.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        await process.wait()
    return response


def _environment(root: Path, request: web.Request) -> dict[str, str]:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROJECT_ROOT": str(root),
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "REQUEST_METHOD": request.method,
    }
    sent = {
        name: request.headers[header]
        for header, name in _PASSED_ON.items()
        if header in request.headers
    }
    return env | sent


async def _feed(process: asyncio.subprocess.Process, request: web.Request) -> None:
    assert process.stdin is not None  # noqa: S101 -- opened as a pipe above
    try:
        async for chunk in request.content.iter_chunked(_CHUNK):
            process.stdin.write(chunk)
            await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # The backend has read enough: it refused the request.
    process.stdin.close()


async def _answer(
    process: asyncio.subprocess.Process, request: web.Request, response: web.StreamResponse
) -> None:
    assert process.stdout is not None  # noqa: S101 -- opened as a pipe above
    while line := (await process.stdout.readline()).strip():
        name, _, value = line.decode().partition(":")
        if name.lower() == "status":
            response.set_status(int(value.split()[0]))
        else:
            response.headers[name] = value.strip()
    await response.prepare(request)
    while chunk := await process.stdout.read(_CHUNK):
        await response.write(chunk)
    await response.write_eof()
