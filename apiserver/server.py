"""Answer requests: the chain that each one goes through, in upstream's order, and the routes.

The order is that of ``apiserver/pkg/server/config.go`` (``DefaultBuildHandlerChain``):

1. an internal error is answered with 500 and logged without content (panic recovery);
2. an audit id is given;
3. until the process knows which front proxies to trust, everything but health gets 503: clients
   would believe a 404;
4. the subject of the request is parsed (``requestinfo``);
5. at shutdown, new requests are told to go elsewhere;
6. responses are not cached unless they say so;
7. requests are counted, to be waited for, and have a deadline; watches are ended instead;
8. authentication (``auth.authentication``); impersonation is refused: the front proxy has done it;
9. the audit line is written at the end;
10. limits (``fairness``);
11. authorization (``auth.authorization``); for a watch again each minute.

Only then a route is chosen, so only users who may ask for a resource learn that it does not exist.
"""

import asyncio
import contextlib
import functools
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from aiohttp import web

from apiserver import (
    audit,
    fairness,
    health,
    metrics,
    negotiation,
    requestinfo,
    sanity,
    status,
)
from apiserver.auth import authentication, standing
from apiserver.auth.authentication import Authentication, Credentials
from apiserver.auth.authorization import Authorization
from apiserver.auth.configuration import Trust
from apiserver.call import Call, User
from apiserver.discovery import VERSION
from apiserver.fairness import Fairness
from apiserver.requestinfo import RequestInfo
from apiserver.resource import Resource, Subresource
from apiserver.status import GROUP, StatusError
from toolkit.net.connections import Connections, Limits

logger = logging.getLogger(__name__)

_CONNECTIONS: Final = 8192
_REQUEST_BYTES: Final = 1 << 20
"""All headers and the body together, as in Go (``http.DefaultMaxHeaderBytes``)."""
_SECONDS: Final = 60.0
_STREAM_SECONDS: Final = 900.0
"""Limit for answers with bytes: an artifact may be large, and a client slow."""
_RETRY_AFTER: Final = 5
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Served(Protocol):
    """The objects of one resource."""

    async def get(self, call: Call) -> web.StreamResponse:
        """Answer with one object."""
        ...

    async def list(self, call: Call) -> web.StreamResponse:
        """Answer with several."""
        ...

    async def watch(self, call: Call) -> web.StreamResponse:
        """Answer with changes."""
        ...

    async def drain(self, *, over: float) -> None:
        """End all watches, at random within so many seconds."""


@dataclass(frozen=True, slots=True)
class Route:
    """One resource and where its objects are."""

    resource: Resource
    served: Served


@dataclass(slots=True)
class _Record:
    """The state of one request."""

    info: RequestInfo
    audit_id: str
    user: User | None = None
    forwarded: tuple[str, ...] = ()
    """The source addresses that a front proxy sent."""
    response: web.StreamResponse | None = None
    """The response, if it has begun."""


_RECORD: Final = web.RequestKey("record", _Record)


@dataclass(slots=True)
class _Running:
    """The requests in progress; watches can be ended."""

    count: int = 0
    watches: set[asyncio.Timeout] = field(default_factory=set)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Server:
    """One process's API; ``application`` is what to listen with."""

    def __init__(  # noqa: PLR0913 - the links of the chain
        self,
        *,
        trust: Callable[[], Trust | None],
        authentication: Authentication,
        authorization: Authorization,
        routes: Mapping[str, Route],
        documents: Mapping[str, Answer],
        healthy: health.Health,
    ) -> None:
        self._trust = trust
        self._authentication = authentication
        self._authorization = authorization
        self._routes = routes
        self._documents = documents
        self._health = healthy
        self._fairness = Fairness()
        self.connections = Connections(Limits.fitting(_CONNECTIONS, request_bytes=_REQUEST_BYTES))
        self._running = _Running()
        self._running.idle.set()
        self.closed = False
        """Requests are sent elsewhere."""

    def application(self) -> web.Application:
        """Return the web application."""
        app = web.Application(client_max_size=sanity.MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        app.on_response_prepare.append(self._finished_headers)
        return app

    async def end_watches(self, *, over: float) -> None:
        """End every watch within so many seconds; clients begin another elsewhere."""
        await asyncio.gather(*(route.served.drain(over=over) for route in self._routes.values()))
        # Close the connections of watches that are too slow to end.
        for each in list(self._running.watches):
            each.reschedule(_now())
        await asyncio.sleep(0)

    async def wait_idle(self) -> None:
        """Wait until nothing is being answered."""
        await self._running.idle.wait()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        # Until the answer is sent (``toolkit.net.listening``).
        self.connections.work(request.transport)
        return await self._audited(request)

    async def _audited(self, request: web.Request) -> web.StreamResponse:
        if health.is_health(request.path):
            return self._health.answer(request)
        # 2. and 4.
        info = requestinfo.parse(request.method, request.path, request.query)
        record = _Record(info=info, audit_id=audit.new_id(request.headers.get(audit.HEADER)))
        request[_RECORD] = record
        began, code = _now(), 499
        try:
            async with self._counted():
                response = await self._recovered(request, record)
            code = response.status
            return response
        finally:
            # 9. A disconnected client gets no answer.
            code = record.response.status if record.response else code
            seconds = _now() - began
            audit.record(
                record.audit_id,
                info,
                record.user,
                uri=request.raw_path,
                code=code,
                seconds=seconds,
                sources=(*record.forwarded, request.remote or ""),
            )
            self._measured(info, code, seconds)

    async def _recovered(self, request: web.Request, record: _Record) -> web.StreamResponse:
        try:
            return await self._answered(request, record)
        except StatusError as exc:
            return _failed(record, exc)
        except (web.HTTPException, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as exc:  # noqa: BLE001 - 1. the one place
            # The message may quote the request, so only positions are logged.
            metrics.PANICS.inc()
            logger.error(  # noqa: TRY400 - see above
                "request failed",
                extra={
                    "auditID": record.audit_id,
                    "type": type(exc).__name__,
                    "at": traceback.format_tb(exc.__traceback__)[-5:],
                },
            )
            return _failed(
                record,
                StatusError(
                    500,
                    "InternalError",
                    "Internal error occurred: this is a bug in Penstock; its log says where"
                    f" (audit id {record.audit_id})",
                ),
            )

    async def _answered(self, request: web.Request, record: _Record) -> web.StreamResponse:
        info = record.info
        # 3.
        trust = self._trust()
        if trust is None:
            raise status.not_yet("the apiserver is not ready yet: whom to trust is not known")
        # 5.
        if self.closed:
            raise fairness.too_many_requests(
                "the apiserver is shutting down, please try again later", retry_after=_RETRY_AFTER
            )
        sanity.check(request)
        # 7.
        seconds = sanity.limit(request, longest=self._longest(info))
        async with self._bounded(record, seconds) as deadline:
            # 8.
            shown = Credentials(certificate=_certificate(request), headers=request.headers)
            record.forwarded = authentication.forwarded(trust, shown)
            user = record.user = await self._authentication.user(trust, shown)
            if authentication.impersonates(request.headers):
                raise _impersonation()
            call = _call(request, trust, record, user, deadline)
            response = await self._permitted(call, info)
            # Within the deadline, so that a client that does not read cannot hold the response.
            await response.prepare(request)
            await response.write_eof()
            return response

    @contextlib.asynccontextmanager
    async def _bounded(self, record: _Record, seconds: float | None) -> AsyncIterator[float]:
        """Give a request its deadline; a watch has one only when we end it."""
        deadline = float("inf") if seconds is None else _now() + seconds
        limit = asyncio.timeout_at(None if seconds is None else deadline)
        try:
            async with limit:
                if seconds is None:
                    self._running.watches.add(limit)
                yield deadline
        except TimeoutError as exc:
            if not limit.expired():
                raise
            raise _timeout(record) from exc
        finally:
            self._running.watches.discard(limit)

    async def _permitted(self, call: Call, info: RequestInfo) -> web.StreamResponse:
        # 10.
        async with self._fairness.place(self._kind(info), call.user):
            # 11.
            await self._authorization.authorize(call.user, info)
            if info.verb != "watch":
                return await self._routed(call, info)
        allowed = functools.partial(self._authorization.authorize, call.user, info)
        with self._fairness.watch(call.user):
            async with standing.held(allowed):
                return await self._routed(call, info)

    async def _routed(self, call: Call, info: RequestInfo) -> web.StreamResponse:
        if not info.is_resource:
            return await self._document(call, info)
        route = self._routes.get(info.resource)
        if route is None or (info.group, info.version) != (GROUP, VERSION) or info.depth > 3:
            raise _unknown()
        if info.subresource:
            subresource = _subresource(route.resource, info.subresource)
            _supported(
                info,
                subresource.verbs,
                f"{info.resource}/{info.subresource}",
                # Bytes may be asked about without having them.
                head=subresource.model is None,
            )
            _agree(call, subresource)
            return await subresource.handle(call)
        _supported(info, route.resource.verbs, info.resource)
        match info.verb:
            case "get":
                return await route.served.get(call)
            case "list":
                return await route.served.list(call)
            case _:
                return await route.served.watch(call)

    async def _document(self, call: Call, info: RequestInfo) -> web.StreamResponse:
        answer = self._documents.get(info.path.rstrip("/") or "/")
        if answer is None:
            raise _unknown()
        if info.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the path"
            )
        return await answer(call.web)

    def _longest(self, info: RequestInfo) -> float | None:
        """Return the limit of a request's duration; None for a watch."""
        if info.verb == "watch":
            return None
        return _STREAM_SECONDS if self._kind(info) == "streams" else _SECONDS

    def _kind(self, info: RequestInfo) -> fairness.Kind:
        if not info.is_resource:
            return "documents"
        if not info.subresource:
            return "reads"
        route = self._routes.get(info.resource)
        for each in route.resource.subresources if route else ():
            if each.name == info.subresource and each.model is None:
                return "streams"
        return "subresources"

    @contextlib.asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        running = self._running
        running.count += 1
        running.idle.clear()
        try:
            yield
        finally:
            running.count -= 1
            if not running.count:
                running.idle.set()

    async def _finished_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        # 6.
        response.headers.setdefault("Cache-Control", "no-cache, private")
        response.headers["X-Content-Type-Options"] = "nosniff"
        record = request.get(_RECORD)
        if record is not None:
            record.response = response
            response.headers[audit.HEADER] = record.audit_id

    def _measured(self, info: RequestInfo, code: int, seconds: float) -> None:
        known = info.resource if info.resource in self._routes else ""
        if info.verb == "watch":
            return
        route = self._routes.get(known)
        names = {each.name for each in route.resource.subresources} if route else set()
        below = info.subresource if info.subresource in names else ""
        verb = info.verb if info.verb in _VERBS else "other"
        metrics.REQUESTS.labels(verb, known, below, str(code)).observe(seconds)


_VERBS: Final = frozenset({"get", "list", "create"})


def _certificate(request: web.Request) -> bytes | None:
    connection = request.get_extra_info("ssl_object")
    shown: bytes | None = connection.getpeercert(binary_form=True) if connection else None
    return shown


def _call(request: web.Request, trust: Trust, record: _Record, user: User, deadline: float) -> Call:
    info = record.info
    return Call(
        # Handlers see no credentials, and no header that only a front proxy may send.
        web=request.clone(headers=authentication.stripped(trust, request.headers)),
        user=user,
        verb=info.verb,
        path=info.path,
        query=request.query,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        deadline=deadline,
        audit_id=record.audit_id,
    )


def _failed(record: _Record, error: StatusError) -> web.StreamResponse:
    """Return the answer for an error; a response that has begun is aborted, or ended."""
    if record.response is None:
        headers = {"Content-Type": "application/json"}
        if error.details.retry_after:
            headers["Retry-After"] = str(error.details.retry_after)
        body = msgspec.json.encode(error.document())
        return web.Response(status=error.code, body=body, headers=headers)
    if record.info.verb == "watch" and error.reason == "Timeout":
        return record.response
    raise ConnectionError("broken off")


def _supported(
    info: RequestInfo, verbs: tuple[str, ...], resource: str, *, head: bool = False
) -> None:
    if info.verb not in verbs or (info.method == "HEAD" and not head):
        raise status.method_not_allowed(info.verb or info.method.lower(), resource)


def _agree(call: Call, subresource: Subresource) -> None:
    """Negotiate formats before anything is written or computed.

    Raises:
        StatusError: 406, the format of the answer is not supported; 415, that of the body is not.
    """
    if subresource.model is None or subresource.bytes_with in call.query:
        return
    negotiation.negotiate(call)
    if call.verb == "create":
        negotiation.require_json(call)


def _subresource(resource: Resource, name: str) -> Subresource:
    for each in resource.subresources:
        if each.name == name:
            return each
    raise _unknown()


def _unknown() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def _timeout(record: _Record) -> StatusError:
    return StatusError(
        504,
        "Timeout",
        f"Timeout: request did not complete within the allotted time: {record.info.verb}",
    )


def _impersonation() -> StatusError:
    return StatusError(
        403, "Forbidden", "forbidden: impersonation works only through kube-apiserver"
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
