"""Serve an application on a port that every client can reach, with TLS or without.

The number of connections and their idle time are bounded (``accepting``, ``connections``). A client
must read an answer within some seconds, and only then its connection counts as idle. Errors of the
protocol are reported without the bytes of the request.

The application says when a connection is busy (``Connections.work``), and when its answers are to
close their connections (``Connections.retire``), at the latest at the end.
"""

import asyncio
import contextlib
import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from aiohttp import http_exceptions, web, web_protocol

from toolkit.net import accepting
from toolkit.net.accepting import Acceptor
from toolkit.net.connections import Connections

logger = logging.getLogger(__name__)

LINGER: Final = 0.3
"""Seconds in which idle connections may send one more request, and are then told to close."""
_KEEP_ALIVE: Final = 95.0
"""Seconds; API servers give up idle connections after 90, and it is better that they do."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def on(
    address: str,
    app: web.Application,
    connections: Connections,
    *,
    context: ssl.SSLContext | None = None,
    shared: bool = True,
    **options: Any,
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve within the block; yields the accepting task, which may be cancelled earlier.

    ``shared`` is for replicas on one machine, so that one can start before the other ends.
    ``options`` are those of ``web.AppRunner``.

    Raises:
        OSError: the process cannot listen on the address.
    """
    app.middlewares.insert(0, _sent(connections))
    app.on_response_prepare.append(_last(connections))
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_protocol_log(),
        handle_signals=False,
        keepalive_timeout=_KEEP_ALIVE,
        # Sizes are those of the sent bytes.
        auto_decompress=False,
        **options,
    )
    await runner.setup()
    try:
        if runner.server is None:
            raise AssertionError("setup makes the server")
        acceptor = Acceptor(_speaking(runner.server), context, connections)
        bound = accepting.bind(address, shared=shared)
        with contextlib.ExitStack() as closing:
            for each in bound:
                closing.enter_context(each)
                host, port, *_ = each.getsockname()
                logger.info("listening", extra={"address": f"{host}:{port}"})
            async with asyncio.TaskGroup() as group:
                accepted = group.create_task(acceptor.run(bound))
                try:
                    yield accepted
                finally:
                    accepted.cancel()
    finally:
        # Servers usually end by being cancelled, which is no reason to break a request.
        await connections.leave()
        await runner.cleanup()


class _Protocol(web_protocol.RequestHandler):
    """Reports an invalid request without quoting it."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with the status that Go's server has for it, and a fixed text."""
        for kind, code, text in _UNREADABLE:
            if isinstance(exc, kind):
                status, message = code, text
                break
        return super().handle_error(request, status, exc, message)


_UNREADABLE: Final = (
    (http_exceptions.BadHttpMethod, 405, "the server does not allow this method"),
    (http_exceptions.LineTooLong, 431, "the request line or a header is too long"),
    (http_exceptions.HttpProcessingError, 400, "the request is malformed"),
)


def _speaking(server: web.Server) -> Callable[[], asyncio.Protocol]:
    """Return the factory of protocols for connections, with our messages for errors."""

    def make() -> asyncio.Protocol:
        made = server()
        made.__class__ = _Protocol  # the server makes its own class, and offers no other way
        return made

    return make


def _sent(connections: Connections) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def sent(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
            # Here, so that the connection rests only then. That a client has gone aiohttp finds out
            # once more.
            with contextlib.suppress(ConnectionError):
                await _send(request, response, seconds=connections.limits.answer_seconds)
            return response
        finally:
            connections.rest(request.transport)

    return sent


def _last(
    connections: Connections,
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def last(_: web.Request, response: web.StreamResponse) -> None:
        if connections.retiring:
            response.force_close()
            # The headers are complete here. A client that is not told uses the connection again.
            response.headers["Connection"] = "close"

    return last


async def _send(request: web.Request, response: web.StreamResponse, *, seconds: float) -> None:
    """Send the rest of an answer; close the connection if the client does not read it."""
    if request.transport is None:
        return
    giving_up = asyncio.get_running_loop().call_later(seconds, request.transport.abort)
    try:
        await response.prepare(request)
        await response.write_eof()
    finally:
        giving_up.cancel()


def _protocol_log() -> logging.Logger:
    """Return the logger for errors of the protocol, which drops the bytes of the request.

    Those of an invalid header may be a credential.
    """

    def without_content(record: logging.LogRecord) -> bool:
        kind, _, trace = record.exc_info or (None, None, None)
        record.error = kind.__name__ if kind else ""
        record.at = traceback.format_tb(trace)[-5:]
        record.exc_info = record.exc_text = None
        return True

    log = logging.Logger(f"{__name__}.protocol")  # noqa: LOG001 - each has one filter, its own
    log.parent = logger
    log.addFilter(without_content)
    return log
