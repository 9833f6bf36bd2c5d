"""HTTP servers on loopback, which is what most fakes of remote services are.

What a server answers, and what it remembers of those who ask, is the fake's.
"""

import contextlib
import fcntl
import functools
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trustme
from aiohttp import web

from tests.tools import sockets
from toolkit.artifact import scratch

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[web.Application], Awaitable[str]]
"""Serves an application for one test and returns host and port; the fixture ``serve`` is one."""

# Below what kernels give to those who name no port, so nobody is given one of these between its
# choice and its use; and each once in a process.
_PORTS: Iterator[int] = iter(random.sample(range(10_000, 32_768), 22_768))
_GIVEN = scratch.parent() / "tests-ports"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that a server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")


@asynccontextmanager
async def serving(
    handler: Handler | web.Application,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[int]:
    """Serve an application, or one function for every request, and give the port."""
    application = handler if isinstance(handler, web.Application) else _everything(handler)
    # A client that is gone, or was killed at its deadline, must not keep us waiting.
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    async with contextlib.AsyncExitStack() as ending:
        listening = ending.enter_context(sockets.listening(host, port))
        ending.push_async_callback(runner.cleanup)
        ending.push_async_callback(sockets.stop_accepting, listening)
        await web.SockSite(runner, listening, ssl_context=tls).start()
        given = listening.getsockname()[1]
        yield given
    await sockets.end(given)


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """Give an address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def certified(
    authority: trustme.CA, *hosts: str, clients: ssl.VerifyMode = ssl.CERT_NONE
) -> ssl.SSLContext:
    """Return what a server of these hosts needs; ``clients`` is whether they show who they are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*hosts).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = clients
    return context


def free_port(among: Iterable[int] = _PORTS) -> int:
    """Return a port that nobody uses, and that no other test of this user is given while we run."""
    for port in among:
        with socket.socket() as bound, contextlib.suppress(OSError):
            # For as long as this process lives: a byte of the file for each port.
            fcntl.lockf(_given(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            bound.bind(("127.0.0.1", port))
            return port
    raise AssertionError("all ports have been given away")


@functools.cache
def _given() -> int:
    """Open the file that all test processes of this user lock; closing it would unlock it."""
    return os.open(_GIVEN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _everything(handler: Handler) -> web.Application:
    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/{path:.*}", handler)
    return application
