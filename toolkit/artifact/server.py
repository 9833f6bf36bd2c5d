"""The artifact server: files of the store over HTTP.

GET and HEAD with entity tags and ranges; no listing, no path outside the root, no authentication: a
NetworkPolicy restricts access, as in Flux. Before the first byte of a file is sent, the file is
compared with its recorded digest. A damaged file counts as missing. If a file cannot be checked
now, the client is told to try again. The number of clients at a time is bounded, and a client that
reads too slowly is disconnected. The caller chooses what else the server answers (``uploads``,
``index``).

Processes that fetch from servers on behalf of tenants get nothing here. Otherwise a chart
repository with this address would make Penstock read an artifact to one tenant that another
tenant's NetworkPolicy protects.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Protocol

import prometheus_client as prom
from aiohttp import web
from aiohttp.typedefs import Handler

from toolkit.artifact import ranges
from toolkit.artifact.ranges import Plan
from toolkit.artifact.store import Readable
from toolkit.errors import TransientError
from toolkit.remote.http.http import USER_AGENT
from toolkit.turns import BusyError, Turns

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The number of clients that are served at a time, and the minimal speed of a client."""

    readers: int = 128
    queue_seconds: float = 10.0
    """How long a further client waits for its turn before it gets an error."""
    grace_seconds: float = 30.0
    bytes_per_second: int = 256 << 10
    """A reader has the grace, and then the time that its bytes take at this rate."""


PATIENT: Final = Patience()


class Source(Protocol):
    """The source of the files."""

    async def open(self, path: str) -> Readable | None:
        """Open the file at ``<kind>/<namespace>/<name>/<file>``; None if there is none.

        Raises:
            TransientError: the store does not answer.
        """


REQUESTS: Final = prom.Counter(
    "penstock_artifact_requests", "Requests to the artifact server.", ("method", "code")
)
SENT: Final = prom.Counter("penstock_artifact_sent_bytes", "Bytes of artifacts that were sent.")


class Routes(Protocol):
    """Further routes of the server."""

    def mount(self, app: web.Application) -> None:
        """Add routes."""


def application(
    source: Source,
    patience: Patience = PATIENT,
    *,
    uploads: Routes | None = None,
    indexes: Routes | None = None,
) -> web.Application:
    """Return the server for one store."""
    app = web.Application(middlewares=[_count])
    app[_SOURCE] = source
    app[_PATIENCE] = patience
    app[_TURNS] = Turns(places=patience.readers)
    for routes in (uploads, indexes):
        if routes is not None:
            routes.mount(app)
    app.router.add_get("/{path:.+}", _serve)
    return app


_SOURCE: Final = web.AppKey("source", Source)
_PATIENCE: Final = web.AppKey("patience", Patience)
_TURNS: Final = web.AppKey("turns", Turns)
_CHUNK: Final = 256 << 10
_METHODS: Final = ("GET", "HEAD", "PUT")
_TYPES: Final = {
    ".gz": "application/gzip",
    ".tgz": "application/gzip",
    ".yaml": "application/yaml",
    ".json": "application/json",
}


@web.middleware
async def _count(request: web.Request, handler: Handler) -> web.StreamResponse:
    status = 500
    try:
        response = await handler(request)
        status = response.status
    except web.HTTPException as exc:
        status = exc.status
        raise
    finally:
        # A client may make up methods; each would be a time series.
        method = request.method if request.method in _METHODS else "other"
        REQUESTS.labels(method, str(status)).inc()
    return response


async def _serve(request: web.Request) -> web.StreamResponse:
    if request.headers.get("User-Agent", "").startswith(USER_AGENT):
        raise web.HTTPForbidden(text="artifacts are not for those who fetch sources\n")
    try:
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(request.app[_PATIENCE].queue_seconds):
                # Fair to clients, because each may read slowly.
                turn = request.app[_TURNS].turn(request.remote or "")
                await stack.enter_async_context(turn)
            return await _answer(request)
    except (TimeoutError, BusyError):
        raise _later() from None
    except TransientError as error:
        # 404 would mean that the artifact was replaced by a newer one.
        logger.error(  # noqa: TRY400  # the message is enough
            "artifact cannot be read", extra={"error": str(error)}
        )
        raise _later() from error


def _later() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(headers={"Retry-After": "5"})


async def _answer(request: web.Request) -> web.StreamResponse:
    found = await request.app[_SOURCE].open(request.match_info["path"])
    if found is None:
        raise web.HTTPNotFound
    with found.file:
        if not found.intact:
            logger.error("artifact is damaged", extra={"file": found.name})
            raise web.HTTPNotFound
        etag = f'"{found.digest}"'
        plan = ranges.plan(request.headers, etag=etag, modified=found.modified, size=found.size)
        response = _headed(found, plan, etag)
        await response.prepare(request)
        if request.method == "GET" and plan.length:
            await _send(request, response, found, plan)
    return response


def _headed(found: Readable, plan: Plan, etag: str) -> web.StreamResponse:
    response = web.StreamResponse(status=plan.status)
    response.headers["ETag"] = etag
    response.headers["X-Artifact-Digest"] = found.digest
    response.headers["Last-Modified"] = formatdate(found.modified, usegmt=True)
    response.headers["Accept-Ranges"] = "bytes"
    if plan.status == 206:
        last = plan.start + plan.length - 1
        response.headers["Content-Range"] = f"bytes {plan.start}-{last}/{found.size}"
    if plan.status == 416:
        response.headers["Content-Range"] = f"bytes */{found.size}"
    if plan.status != 304:
        response.content_length = plan.length
        suffix = os.path.splitext(found.name)[1]  # noqa: PTH122  # a name, not a path
        response.content_type = _TYPES.get(suffix, "application/octet-stream")
    return response


async def _send(
    request: web.Request, response: web.StreamResponse, found: Readable, plan: Plan
) -> None:
    """Send the bytes; a reader that is too slow loses its connection, not its neighbours."""
    patience = request.app[_PATIENCE]
    seconds = patience.grace_seconds + plan.length / patience.bytes_per_second
    try:
        async with asyncio.timeout(seconds):
            for offset, length in _pieces(plan):
                data = await asyncio.to_thread(_read, found, offset, length)
                await response.write(data)
                SENT.inc(length)
    except (TimeoutError, ConnectionResetError, EOFError) as exc:
        reason = str(exc) or type(exc).__name__
        logger.info("artifact not sent to the end", extra={"file": found.name, "error": reason})
        if request.transport is not None:
            request.transport.abort()


def _read(found: Readable, offset: int, length: int) -> bytes:
    data = os.pread(found.file.fileno(), length, offset)
    if len(data) < length:
        raise EOFError("the file became shorter while it was sent")
    return data


def _pieces(plan: Plan) -> Iterator[tuple[int, int]]:
    end = plan.start + plan.length
    for offset in range(plan.start, end, _CHUNK):
        yield offset, min(_CHUNK, end - offset)
