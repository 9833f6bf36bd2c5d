"""HTTP to one API server: pool, TLS, credentials, rate limits, retries, metrics.

A request is only sent again if that cannot do harm: after 429 or 503 with ``Retry-After`` (the
server did nothing), a refused connection (it was never sent), a reset connection if the verb is
idempotent, and once after a 401 with a token that was read again. Callers interpret errors.
"""

import asyncio
import io
import logging
import random
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
import multidict

from toolkit import telemetry
from toolkit.kube import errors
from toolkit.kube.config import ClusterConfig
from toolkit.remote import tls
from toolkit.remote.http import causes
from toolkit.remote.http.reach import Reach, connector

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 4
_MAX_RETRY_AFTER: Final = 30.0
_IN_FLIGHT: Final = 64
_AT_ONCE: Final = 1 << 20
"""Bytes; aiohttp warns of more that are to be written without leaving the event loop."""
_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
_TOKEN_SECONDS: Final = 60.0
_LATER: Final = frozenset({429, 503})
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
_ENDLESS: Final = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)

Headers = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; a header may have several values."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Headers
    data: bytes | None = None

    @property
    def replayable(self) -> bool:
        """Tell whether sending it twice does the same as sending it once."""
        return self.method in _IDEMPOTENT or self.headers.get("Content-Type") in {APPLY, MERGE}


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer."""

    status: int
    body: bytes


class Transport:
    """One TCP pool to one server, shared by all identities that use it."""

    def __init__(  # noqa: PLR0913 - the limits of a connection
        self,
        cluster: ClusterConfig,
        *,
        qps: float,
        burst: int,
        timeout: float,
        patience: float | None,
        max_body: int,
        reach: Reach,
    ) -> None:
        self._max_body = max_body
        self._reach = reach
        self.server = cluster.server
        self._host = cluster.server.partition("://")[2]
        self._proxy = cluster.proxy
        self._token = _Token(cluster)
        self._pace = _Pace(qps, burst)
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        self._patience = patience
        self._server_name = cluster.tls_server_name or None
        self._tls = _tls(cluster)
        self._open_session: aiohttp.ClientSession | None = None
        self._closed = False

    async def close(self) -> None:
        """Close every connection for good; a later request is refused.

        A server that does not answer the end of a TLS stream is not waited for.
        """
        self._closed = True
        session, self._open_session = self._open_session, None
        if session:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await session.close()

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise errors.ApiError(f"the client of {self._host} is closed")
        if self._open_session is None:
            self._open_session = aiohttp.ClientSession(
                connector=connector(self._reach, limit=0, ssl=self._tls),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                headers={
                    "User-Agent": "penstock",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._open_session

    async def send(self, request: Request) -> Reply:
        """Send one request, again if that is safe, and return the successful answer.

        Raises:
            ApiError: the class for the status, or ``UnreachableError``.
        """
        scope = asyncio.timeout(self._patience)
        try:
            async with scope:
                return await self._repeatedly(request)
        except TimeoutError as exc:
            if not scope.expired():
                raise
            told = f"{self._patience or 0:g}s"
            raise errors.UnreachableError(f"no answer from {self._host} within {told}") from exc

    async def _repeatedly(self, request: Request) -> Reply:
        for attempt in range(1, _ATTEMPTS + 1):
            token = await self._token.get()
            try:
                return await self._once(request, token)
            except errors.ApiError as exc:
                pause = _pause(exc, attempt, replay=request.replayable)
                if isinstance(exc, errors.UnauthorizedError) and attempt == 1:
                    pause = 0.0 if await self._token.renew(token) else None
                if pause is None or attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a request whose answer has no end, and give its chunks.

        Raises:
            ApiError: the server refuses it, or the connection breaks while it is read.
        """
        await self._pace.wait()
        token = await self._token.get()
        with _translated(self._host):
            # Headers come at once, also for a watch without events; the body may take for ever.
            async with asyncio.timeout(self._timeout.total):
                response = await self._open(request, token, _ENDLESS)
            async with response:
                if response.status == 401:
                    await self._token.renew(token)
                await self._check(request, response)
                yield response.content.iter_any()

    @asynccontextmanager
    async def exchange(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request once and yield the answer of the server, even if it is an error.

        The target of the request must be encoded already.

        Raises:
            ApiError: there is no answer, or the connection breaks while it is read.
        """
        await self._pace.wait()
        token = await self._token.get()
        with _translated(self._host):
            async with asyncio.timeout(self._timeout.total):
                response = await self._open(request, token, _ENDLESS)
            async with response:
                telemetry.CLIENT_REQUESTS.labels(
                    str(response.status), self._host, request.method
                ).inc()
                if response.status == 401:
                    await self._token.renew(token)
                yield response

    async def _once(self, request: Request, token: str) -> Reply:
        await self._pace.wait()
        async with self._slots:
            began = _now()
            with _translated(self._host):
                response = await self._open(request, token, self._timeout)
                async with response:
                    await self._check(request, response)
                    body = await self._body(response)
            took = _now() - began
        telemetry.CLIENT_DURATION.labels(self._host, request.method).observe(took)
        return Reply(response.status, body)

    async def _open(
        self, request: Request, token: str, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        # Redirects are refused: they would carry the token and the impersonation elsewhere.
        try:
            return await self._session.request(
                request.method,
                self.server + request.path,
                params=request.query,
                data=_body(request.data),
                headers=_merge(request.headers, token),
                timeout=limits,
                proxy=self._proxy,
                server_hostname=self._server_name,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError):
            telemetry.CLIENT_REQUESTS.labels("<error>", self._host, request.method).inc()
            raise

    async def _check(self, request: Request, response: aiohttp.ClientResponse) -> None:
        telemetry.CLIENT_REQUESTS.labels(str(response.status), self._host, request.method).inc()
        for warning in response.headers.getall("Warning", ()):
            logger.debug("the API server warns", extra={"warning": warning})
        if response.status < 300:
            return
        text = await self._body(response)
        raise errors.from_status(
            response.status,
            _status(text, foreign=self._reach is not Reach.ANYWHERE),
            retry_after=_seconds(response.headers.get("Retry-After")),
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """Read the body, within a limit: the server of a tenant may send one without end."""
        parts, size = [], 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self._max_body:
                limit = f"{self._max_body >> 20} MiB"
                raise errors.ApiError(f"{self._host} answered with more than {limit}")
            parts.append(part)
        return b"".join(parts)


class _Token:
    """The bearer token: read in a thread, at most once a minute and after a 401."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._read = cluster.token
        self._value = ""
        self._expires = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """Return the token; empty when the identity is a client certificate."""
        if self._read and _now() >= self._expires:
            await self.renew(self._value)
        return self._value

    async def renew(self, refused: str) -> bool:
        """Read the token again unless another caller just did; return whether it has changed."""
        async with self._lock:
            if self._read and self._value == refused:
                try:
                    self._value = await asyncio.to_thread(self._read)
                except OSError as exc:
                    raise errors.UnreachableError(f"cannot read the token: {exc.strerror}") from exc
                self._expires = _now() + _TOKEN_SECONDS
            return self._value != refused


class _Pace:
    """A token bucket: ``qps`` a second, ``burst`` at once; no limit unless ``qps`` is positive."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1 / qps if qps > 0 else 0.0
        self._slack = self._interval * max(burst - 1, 0)
        self._next = float("-inf")

    async def wait(self) -> None:
        """Sleep until the next request may go."""
        if not self._interval:
            return
        now = _now()
        self._next = max(self._next, now - self._slack) + self._interval
        ahead = self._next - self._interval - now
        if ahead > 0:
            await asyncio.sleep(ahead)


@contextmanager
def _translated(host: str) -> Iterator[None]:
    """Turn the network's exceptions into ``UnreachableError``."""
    try:
        yield
    except TimeoutError as exc:
        raise errors.UnreachableError(f"no answer from {host} in time") from exc
    except aiohttp.ClientConnectorError as exc:
        # The request was never sent, so any verb may try again.
        why = f"cannot connect to {host}: {causes.cause(exc)}"
        raise errors.UnreachableError(why, sent=False) from exc
    except (aiohttp.ClientError, OSError) as exc:
        why = f"connection to {host} failed: {causes.cause(exc)}"
        raise errors.UnreachableError(why) from exc


def _body(data: bytes | None) -> bytes | io.BytesIO | None:
    """Have a large body written piece by piece, in between which others get their turn."""
    return io.BytesIO(data) if data and len(data) > _AT_ONCE else data


def _pause(exc: errors.ApiError, attempt: int, *, replay: bool) -> float | None:
    """Return the seconds to wait before the request may be sent again; None: it must not."""
    # A server answers 503 when it shuts down, or while it changes a kind whose CRD has changed
    # (client-go ``rest/with_retry.go``, apiserver ``filters/waitgroup.go``).
    if exc.status in _LATER:
        after = exc.retry_after
        return None if after is None else min(after, _MAX_RETRY_AFTER)
    if isinstance(exc, errors.UnreachableError) and (replay or not exc.sent):
        return random.uniform(0.05, 0.1) * float(2**attempt)  # noqa: S311 - jitter
    return None


def _merge(headers: Headers, token: str) -> multidict.CIMultiDict[str]:
    merged: multidict.CIMultiDict[str] = multidict.CIMultiDict()
    for name, value in headers.items():
        for single in (value,) if isinstance(value, str) else value:
            merged.add(name, single)
    if token:
        merged["Authorization"] = f"Bearer {token}"
    return merged


def _status(text: bytes, *, foreign: bool) -> Mapping[str, Any]:
    """Decode a ``Status``; proxies answer with plain text, which becomes the message.

    A ``foreign`` server is one that a tenant chose: nothing that is not a ``Status`` is quoted.
    """
    try:
        # A larger answer is no status: millions of empty lists would block all others for seconds.
        body = msgspec.json.decode(text if len(text) <= errors.LONGEST_STATUS else b"")
    except (ValueError, RecursionError):
        return {} if foreign else {"message": text[:300].decode(errors="replace").strip()}
    if not isinstance(body, dict) or (foreign and body.get("kind") != "Status"):
        return {}
    return body


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdecimal() else None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _tls(cluster: ClusterConfig) -> ssl.SSLContext | bool:
    if not cluster.server.startswith("https://"):
        return True
    try:
        context = ssl.create_default_context(cadata=cluster.ca.decode() if cluster.ca else None)
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if cluster.client_cert and cluster.client_key:
            tls.load_pair(context, cluster.client_cert, cluster.client_key)
    except (ssl.SSLError, ValueError) as exc:
        raise errors.KubeConfigError(
            f"certificates for {cluster.server} do not load: {exc}"
        ) from exc
    return context
