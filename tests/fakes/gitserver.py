"""A Git server over smart HTTP: the real ``git http-backend`` behind aiohttp, faults on demand.

``GitServer`` is an async context manager. ``server.repository("name")`` makes a repository that is
served at once; ``repository.commit({"path": "text"})`` adds to it. Faults are attributes, to be
set while the server runs.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from aiohttp import web

from tests.fakes.gitrepository import Repository, environment
from tests.fakes.serving import Seen, serving

__all__ = ["Faults", "GitServer", "Proxy", "Repository", "proxy"]


@dataclass(slots=True)
class Faults:
    """What the server does wrong."""

    status: int = 0
    """Answer every request with this status."""
    redirect: str = ""
    """Send requests to the same path at this base URL."""
    redirect_method: str = "GET"
    """Which requests to send there."""
    moved: tuple[str, str] = ("", "")
    """Send requests below the first path to the second."""
    seconds_per_byte: float = 0.0
    """Answer one byte at a time."""
    rewrite: Callable[[bytes], bytes] | None = None
    """Change what the client asks for, so that it gets something else."""
    fetched: bytes = b""
    """Answer a request for objects with these packets."""
    pushed: bytes | None = None
    """Answer a push with these packets, and change nothing."""
    old_protocol: bool = False
    """Speak protocol version 0."""
    plain: bool = False
    """Serve files, as a web server without git would."""


class GitServer:
    """Serves the repositories below ``root``; ``basic`` and ``bearer`` are what it demands.

    ``host`` is how clients call it, ``address`` where it listens.
    """

    def __init__(
        self,
        root: Path,
        *,
        tls: ssl.SSLContext | None = None,
        basic: tuple[str, str] | None = None,
        bearer: str = "",
        host: str = "localhost",
        address: str = "127.0.0.1",
    ) -> None:
        self.root = root
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.base = ""
        self._tls = tls
        self._host = host
        self._address = address
        self._wanted = f"Bearer {bearer}" if bearer else ""
        if basic:
            self._wanted = "Basic " + base64.b64encode(":".join(basic).encode()).decode()
        self._open = AsyncExitStack()

    def repository(self, name: str, *, head: str = "main") -> Repository:
        """Make an empty repository and serve it at ``<base>/<name>.git``."""
        return Repository(self.root / f"{name}.git", url=f"{self.base}/{name}.git", head=head)

    async def __aenter__(self) -> Self:
        port = await self._open.enter_async_context(
            serving(self.answer, tls=self._tls, host=self._address)
        )
        self.base = f"{'https' if self._tls else 'http'}://{self._host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, also for a server that has more than repositories."""
        body = await request.read()
        self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body))
        if self._wanted and request.headers.get("Authorization") != self._wanted:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        if self.faults.status:
            return web.Response(status=self.faults.status)
        if self.faults.redirect and request.method == self.faults.redirect_method:
            raise web.HTTPFound(self.faults.redirect + request.path_qs)
        old, new = self.faults.moved
        if old and request.path.startswith(old):
            raise web.HTTPMovedPermanently(request.path_qs.replace(old, new, 1))
        if self.faults.plain:
            return web.Response(text="<html>not git</html>", content_type="text/html")
        if self.faults.fetched and b"command=fetch" in body:
            kind = "application/x-git-upload-pack-result"
            return web.Response(body=self.faults.fetched, content_type=kind)
        if (
            self.faults.pushed is not None
            and request.method == "POST"
            and "receive" in request.path
        ):
            kind = "application/x-git-receive-pack-result"
            return web.Response(body=self.faults.pushed, content_type=kind)
        if self.faults.rewrite:
            body = self.faults.rewrite(body)
        return await self._run_backend(request, body)

    async def _run_backend(self, request: web.Request, body: bytes) -> web.StreamResponse:
        process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=self._cgi(request, body),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(body)
            process.stdin.write_eof()
            response = await self._head(process.stdout)
            await response.prepare(request)
            while data := await process.stdout.read(1 << 16):
                await self._send(response, data)
            await response.write_eof()
        except BaseException as exc:
            with suppress(ProcessLookupError):
                process.kill()
            if not isinstance(exc, ConnectionError):  # The client has gone: it may.
                raise
        finally:
            await process.wait()
        return response

    async def _head(self, output: asyncio.StreamReader) -> web.StreamResponse:
        head = (await output.readuntil(b"\r\n\r\n")).decode()
        response = web.StreamResponse()
        for line in head.strip().split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                response.set_status(int(value.split()[0]))
            else:
                response.headers[name] = value
        return response

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        if not self.faults.seconds_per_byte:
            await response.write(data)
            return
        for byte in data:
            await response.write(bytes([byte]))
            await asyncio.sleep(self.faults.seconds_per_byte)

    def _cgi(self, request: web.Request, body: bytes) -> dict[str, str]:
        protocol = "" if self.faults.old_protocol else request.headers.get("Git-Protocol", "")
        return environment() | {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": protocol,
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }


@dataclass(slots=True)
class Proxy:
    """A forward proxy that ran: where, and which targets it was asked for."""

    address: str
    targets: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def proxy(*, basic: tuple[str, str] | None = None) -> AsyncIterator[Proxy]:
    """Run an HTTP proxy that knows CONNECT and plain requests."""
    wanted = base64.b64encode(":".join(basic).encode()).decode() if basic else ""
    state = Proxy("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        state.targets.append(f"{method} {target}")
        state.heads.append(head)
        if wanted and f"Proxy-Authorization: Basic {wanted}".encode() not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        await _forward(method, target, head, reader, writer)

    async with _listening(serve) as port:
        state.address = f"http://localhost:{port}"
        yield state


@asynccontextmanager
async def socks_proxy(*, basic: tuple[str, str] | None = None) -> AsyncIterator[Proxy]:
    """Run a SOCKS 5 proxy (RFC 1928, 1929)."""
    state = Proxy("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(2))[1])
        method = 2 if basic else 0
        if method not in methods:
            writer.write(b"\x05\xff")
            writer.close()
            return
        writer.write(bytes([5, method]))
        if basic:
            await reader.readexactly(1)
            given = [
                (await reader.readexactly((await reader.readexactly(1))[0])).decode()
                for _ in range(2)
            ]
            writer.write(b"\x01\x00" if tuple(given) == basic else b"\x01\x01")
            if tuple(given) != basic:
                writer.close()
                return
        await reader.readexactly(4)
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2))
        state.targets.append(f"SOCKS {host}:{port}")
        upstream = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await _join((reader, writer), upstream)

    async with _listening(serve) as port:
        state.address = f"socks5://localhost:{port}"
        yield state


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object],
) -> AsyncIterator[int]:
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve(reader, writer)))  # type: ignore[arg-type]  # a coroutine

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    method: str,
    target: str,
    head: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    authority = target if method == "CONNECT" else target.split("/")[2]
    upstream = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
    if method == "CONNECT":
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    else:
        path = "/" + target.split("/", 3)[3]
        upstream[1].write(head.replace(target.encode(), path.encode(), 1))
    await _join((reader, writer), upstream)


async def _join(left: _Stream, right: _Stream) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    await asyncio.gather(pump(left[0], right[1]), pump(right[0], left[1]))
