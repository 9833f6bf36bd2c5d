"""HTTP to untrusted servers: registries, chart repositories, token services.

1. With a CA in the ``Endpoint`` only that CA counts, otherwise only the system's.
2. Credentials, client certificates included, go to the origin that they were given for. With
   ``pass_credentials`` they follow redirects.
3. No URL, redirect or proxy leads to a metadata service. Redirects are followed for reading only, a
   few times, never from https to http, and never from a public address to a private one.
4. Responses are neither decompressed nor cached, and no cookie is kept.
5. If a server asks to wait, a short wait happens within the deadline. For a longer one, all
   requests with the same credentials fail at once until the time has come.

Connections are shared by all callers with the same trust. A proxy resolves names itself: through
one, only literal addresses are checked for (3), and its own address if a user chose it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, Self

import aiohttp
import msgspec
from yarl import URL

from toolkit import untrusted
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http import causes, patience, rules
from toolkit.remote.http import reach as httpreach
from toolkit.remote.http.patience import Deadline, Pauses
from toolkit.remote.http.reach import OutOfReachError, Reach
from toolkit.remote.http.rules import Hop, Route, shown
from toolkit.remote.http.socks import SocksConnector
from toolkit.remote.proxy import Proxy
from toolkit.remote.tls import client_context

__all__ = ["USER_AGENT", "AuthError", "Endpoint", "Http", "HttpError", "Proxy", "read", "shown"]

USER_AGENT: Final = "penstock"
"""The beginning of the User-Agent of all requests to untrusted servers; our own servers check it.
"""


class Http:
    """All HTTP connections of this process to untrusted servers; open it with ``async with``.

    ``pools`` is the number of different TLS settings whose connections are kept.
    """

    def __init__(self, *, pools: int = 64) -> None:
        self._bound = pools
        self._pools: OrderedDict[_Trust, _Pool] = OrderedDict()
        self._known = httpreach.Known()
        self._pauses: Pauses | None = None

    async def __aenter__(self) -> Self:
        self._pauses = Pauses()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pauses = None
        while self._pools:
            await self._pools.popitem()[1].session.close()

    @asynccontextmanager
    async def request(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        url: str,
        *,
        endpoint: Endpoint,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes | Path | None = None,
        timeout: float,  # noqa: ASYNC109  # one deadline over all hops and waits
        named_by: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the answer; ``timeout`` (seconds) includes reading its body.

        Statuses below 400 are answers, including 304. ``named_by`` is the URL of the server that
        named this URL: the same addresses are allowed as for a redirect, but the endpoint's
        credentials are sent. A ``body`` that is a file is sent while it is read.

        Raises:
            HttpError: no response in time, an answer of 400 or more, or one that violates the
                rules.
            AuthError: 401 and 403, or an invalid certificate or login at the proxy.
        """
        sending = _Sending(method, headers, body, Deadline(timeout))
        hop = Hop(url=rules.parsed(url), endpoint=endpoint)
        reach = Reach.ANYWHERE if endpoint.node else _within(hop.url.host, _limit(endpoint))
        if named_by:
            reach = max(self._reach(rules.parsed(named_by), hop.url), _limit(endpoint))
        for _ in range(_MAX_REDIRECTS + 1):
            async with self._exchange(sending, hop, reach) as response:
                if response.status not in _REDIRECTS or method not in _READING:
                    yield response
                    return
                following = rules.follow(hop, response.headers.get("Location", ""))
            reach = max(reach, self._reach(hop.url, following.url), _limit(hop.endpoint))
            hop = following
        raise HttpError(f"'{shown(url)}' redirects too often")

    def _reach(self, origin: URL, target: URL) -> Reach:
        """Return the addresses to which ``origin`` may lead us (rule 3)."""
        return _within(target.host, self._known.reach(origin.host or "", target.host or ""))

    @asynccontextmanager
    async def _exchange(
        self, sending: "_Sending", hop: Hop, reach: Reach
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask one server, again if it wants a little patience (rule 5)."""
        if self._pauses is None:
            raise RuntimeError("the HTTP client is not open")
        key = (hop.url.origin(), hop.endpoint)
        for attempt in range(_ATTEMPTS):
            if left := self._pauses.left(key):
                raise _asked_for_patience(hop.url, left)
            async with self._sent(sending, hop, reach) as response:
                if response.status < 400:
                    yield response
                    return
                error = await _refusal(hop, response)
            wait = error.retry_after
            if wait is None:
                raise error
            if wait > _PATIENCE or attempt + 1 == _ATTEMPTS or wait >= sending.deadline.left:
                self._pauses.remember(key, wait)
                raise error
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def _sent(
        self, sending: "_Sending", hop: Hop, reach: Reach
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        route = rules.route(hop)
        headers = {**_HEADERS, **sending.headers, **route.headers}
        # Not the session's headers: aiohttp would show those to a proxy too.
        if authorization := hop.endpoint.authorization:
            headers["Authorization"] = authorization
        timeout = aiohttp.ClientTimeout(total=sending.deadline.left, sock_connect=CONNECT_SECONDS)
        pool = self._pool(_Trust.of(hop.endpoint, route, reach))
        try:
            await self._make_room()
            with _translated(hop.url), _sendable(hop.url), _opened(sending.body) as body:
                response = await pool.session.request(
                    sending.method,
                    hop.url,
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    proxy=route.proxy,
                    proxy_headers=route.proxy_headers,
                    timeout=timeout,
                )
            async with response:
                with _translated(hop.url):
                    yield response
        finally:
            pool.users -= 1

    def _pool(self, trust: "_Trust") -> "_Pool":
        """Return the connections of a trust (rule 1), in use."""
        pool = self._pools.get(trust)
        if pool is None:
            pool = self._pools[trust] = _Pool(session=_session(trust, self._known))
        pool.users += 1
        self._pools.move_to_end(trust)
        return pool

    async def _make_room(self) -> None:
        """Close the least recently used pools that are too many, but for those in use."""
        # One at a time: while one is being closed, the next may come into use.
        while len(self._pools) > self._bound and (idle := self._idle()):
            await self._pools.pop(idle).session.close()

    def _idle(self) -> "_Trust | None":
        return next((trust for trust, pool in self._pools.items() if not pool.users), None)


async def read(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        HttpError: it is longer than ``limit`` bytes.
    """
    if (response.content_length or 0) > limit:
        raise _too_long(response, limit)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise _too_long(response, limit)
    return bytes(body)


def _too_long(response: aiohttp.ClientResponse, limit: int) -> HttpError:
    return HttpError(f"'{shown(response.url)}' answers with more than {limit} bytes")


CONNECT_SECONDS: Final = 15.0
_HEADERS: Final = MappingProxyType({"User-Agent": USER_AGENT, "Accept-Encoding": "identity"})
_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_READING: Final = frozenset({"GET", "HEAD"})
_PATIENT: Final = frozenset({403, 429, 503})
"""Statuses with which a server may state a delay; hosting services also use 403."""
_ATTEMPTS: Final = 4
_PATIENCE: Final = 10.0
"""Limit for the delay that a request waits, because it occupies a worker meanwhile."""
_PER_HOST: Final = 32
_CHUNK: Final = 256 << 10
_MAX_COMPLAINT: Final = 8 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trust:
    """The properties that requests must share to use the same connections."""

    ca: bytes | None
    client_cert: bytes | None
    client_key: bytes | None
    socks: Proxy | None
    reach: Reach

    @classmethod
    def of(cls, endpoint: Endpoint, route: Route, reach: Reach) -> "_Trust":
        """Return the trust of a request; through a proxy, reach is about the proxy's address."""
        if endpoint.proxy is not None:
            reach = _within(endpoint.proxy.endpoint[1][0], _limit(endpoint))
        elif route.proxy or route.socks:
            reach = Reach.ANYWHERE  # The operator's.
        return cls(
            ca=endpoint.ca,
            client_cert=endpoint.client_cert,
            client_key=endpoint.client_key,
            socks=route.socks,
            reach=reach,
        )


@dataclass(slots=True)
class _Pool:
    """A session and how many requests use it now."""

    session: aiohttp.ClientSession
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Sending:
    """The parts of a request that are the same for all hops."""

    method: str
    headers: Mapping[str, str]
    body: bytes | Path | None
    deadline: Deadline


def _session(trust: _Trust, known: httpreach.Known) -> aiohttp.ClientSession:
    context = client_context(trust.ca, trust.client_cert, trust.client_key)
    # No limit of all connections together: a hundred hosts that do not answer would hold it.
    options: dict[str, Any] = {"ssl": context, "limit": 0, "limit_per_host": _PER_HOST}
    if trust.socks is None:
        connector = httpreach.connector(trust.reach, known=known, **options)
    else:
        connector = SocksConnector(trust.socks, seconds=CONNECT_SECONDS, **options)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_CHUNK,
    )


async def _refusal(hop: Hop, response: aiohttp.ClientResponse) -> HttpError:
    """Return the error for a status."""
    status, place, code = response.status, shown(hop.url), await _code(response)
    said = f"HTTP {status} {code}".rstrip()
    if status == 407:
        return AuthError("the proxy requires valid credentials", status=status)
    wait = patience.asked(response.headers) if status in _PATIENT else None
    if status in {401, 403} and wait is None:
        given = "refused the credentials" if hop.endpoint.authorization else "asks for credentials"
        return AuthError(
            f"'{place}' {given} ({said})",
            status=status,
            challenges=tuple(response.headers.getall("WWW-Authenticate", ())),
            origin=str(hop.url.origin()),
            code=code,
        )
    return HttpError(f"'{place}' answered with {said}", status=status, retry_after=wait, code=code)


async def _code(response: aiohttp.ClientResponse) -> str:
    """Return the server's word for the error; its sentences may repeat what we sent as a secret."""
    with suppress(aiohttp.ClientError, TimeoutError, untrusted.UntrustedError):
        body = await response.content.read(_MAX_COMPLAINT)
        code = untrusted.load_json(body, _Complaint, size=_MAX_COMPLAINT).word
        if code.isascii() and code.replace("_", "").isalpha() and len(code) <= 40:
            return code
    return ""


class _Error(msgspec.Struct):
    code: str | int = ""
    status: str = ""

    @property
    def word(self) -> str:
        return self.status or str(self.code)


class _Complaint(msgspec.Struct):
    """The error bodies of the distribution API, of AWS, and of Google, Azure and OAuth."""

    errors: list[_Error | str] = []  # Vault's are sentences
    type: str = msgspec.field(default="", name="__type")
    error: _Error | str = ""

    @property
    def word(self) -> str:
        """Return the code of the error."""
        for said in (*self.errors[:1], self.error):
            if isinstance(said, _Error):
                return said.word
        # AWS may put the name of the service before it.
        return self.type.rpartition("#")[2] or str(self.error)


def _asked_for_patience(url: URL, left: float) -> HttpError:
    return HttpError(
        f"'{shown(url.origin())}' asked for a pause of {left:.0f} more seconds",
        status=429,
        retry_after=left,
    )


def _limit(endpoint: Endpoint) -> Reach:
    """Return which addresses the author of the URL may make us connect to."""
    return Reach.NOT_METADATA if endpoint.private else Reach.PUBLIC


def _within(host: str | None, reach: Reach) -> Reach:
    """Return the reach, in which the host is if it is an address; names are resolved later."""
    if not httpreach.literal_within(host or "", reach):
        raise _out_of_reach(host, reach)
    return reach


def _out_of_reach(host: str | None, reach: Reach) -> HttpError:
    if reach is Reach.PUBLIC:
        return HttpError(f"'{host}' is a private address, which is not allowed here")
    return HttpError(f"'{host}' is the address of a metadata service, which is not allowed")


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    """Turn what aiohttp raises into our errors."""
    try:
        yield
    except TimeoutError as exc:
        raise HttpError(f"'{shown(url)}' did not respond in time") from exc
    except aiohttp.ClientHttpProxyError as exc:
        if exc.status == 407:
            raise AuthError("the proxy requires valid credentials", status=407) from exc
        raise HttpError(f"the proxy did not connect: HTTP {exc.status}") from exc
    except aiohttp.ClientProxyConnectionError as exc:
        raise HttpError(f"cannot connect to the proxy: {causes.cause(exc)}") from exc
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as exc:
        raise AuthError(f"TLS connection to '{shown(url)}' failed: {causes.cause(exc)}") from exc
    except aiohttp.ClientError as exc:
        if isinstance(far := getattr(exc, "os_error", None), OutOfReachError):
            raise HttpError(f"'{shown(url)}' is not asked: {far}") from exc
        raise HttpError(f"cannot ask '{shown(url)}': {causes.cause(exc)}") from exc


@contextmanager
def _opened(body: bytes | Path | None) -> Iterator[bytes | IO[bytes] | None]:
    """Open a body that is a file, again for every attempt."""
    if isinstance(body, Path):
        with body.open("rb") as file:
            yield file
    else:
        yield body


@contextmanager
def _sendable(url: URL) -> Iterator[None]:
    """Refuse what cannot be sent: a host that is not a name, a header with line ends."""
    try:
        yield
    except ValueError as exc:
        if isinstance(exc, aiohttp.ClientError):
            raise
        raise HttpError(f"'{shown(url)}' cannot be contacted: {type(exc).__name__}") from exc
