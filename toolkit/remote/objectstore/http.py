"""Requests to object stores: one connection pool per store, deadlines, limited retries.

Redirects are not followed: a signature is valid for one host only, and none of the protocols needs
them. Metadata services are refused, by any name and as a proxy. Error messages are our own (see
``objectstoreerrors``).
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self, TypeVar

import aiohttp
from yarl import URL

from toolkit.remote import tls, webaddress
from toolkit.remote.errors import AuthError
from toolkit.remote.http import causes
from toolkit.remote.http.reach import Reach, connector, literal_within
from toolkit.remote.objectstore.errors import (
    BucketNotFoundError,
    CredentialsError,
    ObjectChangedError,
    ObjectNotFoundError,
    ObjectStoreError,
)
from toolkit.remote.proxy import Proxy, from_environment

T = TypeVar("T")

ATTEMPTS: Final = 4
MAX_ANSWER: Final = 8 << 20
"""Bytes of an answer that is held in memory: a page of a listing, a token."""

CHUNK: Final = 256 << 10

_CONNECT_SECONDS: Final = 10.0
_CONNECTIONS: Final = 128
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
_MAX_ERROR: Final = 16 << 10
_METADATA: Final = "is a metadata service's address, which is not allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, ready to be sent: the URL is encoded, the headers hold the proof."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | Path | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a request, for messages: "cannot <action> at <host>"."""

    action: str
    host: str
    bucket: str = ""


class Wire:
    """Sends requests to one place; use it with ``async with``, or ``close`` it.

    ``patience`` is the number of seconds that a server may send nothing.
    """

    def __init__(
        self,
        *,
        ca: bytes | None = None,
        client_cert: bytes | None = None,
        client_key: bytes | None = None,
        proxy: Proxy | None = None,
        patience: float = 60.0,
    ) -> None:
        try:
            context = tls.client_context(ca, client_cert, client_key)
            self._proxy = proxy
            self._known: dict[tuple[str, str, int], Proxy | None] = {}
            if proxy:
                _url(proxy)
        except AuthError as exc:
            raise CredentialsError(str(exc)) from exc
        self._session = aiohttp.ClientSession(
            connector=connector(Reach.NOT_METADATA, limit=_CONNECTIONS, ssl=context),
            headers={"User-Agent": "penstock"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Proxies of the environment are read below; its .netrc must not be used.
            trust_env=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=min(_CONNECT_SECONDS, patience), sock_read=patience
            ),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def _usual(self, url: URL) -> Proxy | None:
        """Return the environment's proxy, cached, because finding it takes a fifth of a GET."""
        key = (url.scheme, url.host or "", url.port or 0)
        if key not in self._known:
            self._known[key] = from_environment(*key)
        return self._known[key]

    @asynccontextmanager
    async def send(
        self, request: Request, subject: Subject
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request once and yield an answer that is a success; its body is not read yet.

        Raises:
            ObjectStoreError: the answer is not a success, or no answer came.
        """
        _check(request.headers)
        try:
            url, body = webaddress.read(request.url, encoded=True), request.body
        except ValueError as exc:
            raise ObjectStoreError(_message(subject, "the endpoint is not a URL")) from exc
        proxy = self._proxy or self._usual(url)
        for host in (url.host, proxy.endpoint[1][0] if proxy else ""):
            if not literal_within(host or "", Reach.NOT_METADATA):
                raise ObjectStoreError(_message(subject, f"'{host}' {_METADATA}"))
        login = _login(proxy) if proxy else {}
        opened = await asyncio.to_thread(body.open, "rb") if isinstance(body, Path) else None
        try:
            async with self._session.request(
                request.method,
                url,
                headers={
                    "Accept-Encoding": "identity",
                    **request.headers,
                    # Without TLS there is no CONNECT, and the request itself tells the proxy.
                    **(login if url.scheme == "http" else {}),
                },
                data=opened or body,
                allow_redirects=False,
                proxy=_url(proxy) if proxy else None,
                proxy_headers=login,
                skip_auto_headers=("Content-Type",),
            ) as response:
                if not 200 <= response.status < 300:
                    raise await _refusal(response, subject)
                yield response
        except (aiohttp.ClientError, OSError) as exc:
            raise _unreachable(exc, subject) from exc
        finally:
            if opened is not None:
                opened.close()

    async def text(self, request: Request, subject: Subject) -> tuple[bytes, Mapping[str, str]]:
        """Return a bounded body and the headers of the answer."""
        async with self.send(request, subject) as response:
            return await bounded(response, MAX_ANSWER, subject), response.headers.copy()


async def bounded(response: aiohttp.ClientResponse, limit: int, subject: Subject) -> bytes:
    """Read a whole body of at most ``limit`` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > limit:
            raise ObjectStoreError(_message(subject, f"the answer is larger than {limit} bytes"))
    return bytes(body)


async def retry(work: Callable[[], Awaitable[T]], subject: Subject, *, within: float) -> T:
    """Return the result of ``work``; retry temporary errors within ``within`` seconds.

    Raises:
        ObjectStoreError: the error persists.
    """
    last: ObjectStoreError | None = None
    try:
        async with asyncio.timeout(within):
            for attempt in range(ATTEMPTS):
                try:
                    return await work()
                except ObjectStoreError as exc:
                    last = exc
                    if attempt + 1 == ATTEMPTS or not (exc.status in _PASSING or _dropped(exc)):
                        raise
                    await asyncio.sleep(_pause(attempt, exc.retry_after))
    except TimeoutError as exc:
        why = f"no response within {within:g}s" + (f"; before that, {last}" if last else "")
        raise ObjectStoreError(_message(subject, why)) from exc
    raise AssertionError(ATTEMPTS)


def _check(headers: Mapping[str, str]) -> None:
    """Refuse characters that end a header; values come from Secrets or token services."""
    if not all(value.isprintable() for value in headers.values()):
        raise CredentialsError("the credentials have characters that no header can carry")


def _dropped(error: ObjectStoreError) -> bool:
    """Tell whether a connection broke, as opposed to an answer that we do not want."""
    return isinstance(
        error.__cause__, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError
    ) and not isinstance(error.__cause__, aiohttp.ClientSSLError)


def _pause(attempt: int, retry_after: float | None) -> float:
    return retry_after or 0.1 * 2**attempt * (1 + random.random())  # noqa: S311  # a jitter


def _url(proxy: Proxy) -> URL:
    scheme, (host, port) = proxy.endpoint
    if scheme == "socks5":
        raise CredentialsError("a proxy of kind 'socks5' is not supported here: use http or https")
    return URL.build(scheme=scheme, host=host, port=port)


def _login(proxy: Proxy) -> dict[str, str]:
    return {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}


def _message(subject: Subject, why: str) -> str:
    return f"cannot {subject.action} at {subject.host}: {why}"


def _unreachable(exc: Exception, subject: Subject) -> ObjectStoreError:
    """Say in our own words what kept a request from being answered."""
    match exc:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            why = "its certificate is not trusted, or TLS failed; see spec.certSecretRef"
        case aiohttp.ClientHttpProxyError():
            why = f"the proxy answered {exc.status}"
        case aiohttp.ClientConnectorError():
            why = f"no connection: {causes.cause(exc)}"
        case _:
            why = causes.cause(exc)
    return ObjectStoreError(_message(subject, why))


_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>|\"reason\": ?\"([A-Za-z0-9]{1,64})\"")
_REGION: Final = re.compile(rb"<Region>([a-z0-9-]{1,32})</Region>")
_NAMED_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})


async def _refusal(response: aiohttp.ClientResponse, subject: Subject) -> ObjectStoreError:
    """Return the error for a status and the server's code; the body is not used further."""
    body = await response.content.read(_MAX_ERROR)
    code = _code(response, body)
    why = f"{response.status} {code or HTTPStatus(response.status).phrase}"
    if response.status in (301, 307, 400) and (region := _region(response, body)):
        why += f"; the bucket is in region '{region}': set spec.region"
    retry_after = _seconds(response.headers.get("Retry-After", ""))
    if code in _NO_BUCKET:
        return BucketNotFoundError(f"bucket '{subject.bucket}' not found", status=404)
    kind: type[ObjectStoreError] = ObjectStoreError
    if response.status == 404:
        kind = ObjectNotFoundError
    elif response.status in (304, 412) or code in ("BlobAlreadyExists", "ConditionNotMet"):
        kind = ObjectChangedError
    return kind(_message(subject, why), status=response.status, retry_after=retry_after)


def _code(response: aiohttp.ClientResponse, body: bytes) -> str:
    named = response.headers.get("x-ms-error-code", "")
    if named.isascii() and named.isalnum() and len(named) <= 64:
        return named
    found = _CODE.search(body)
    return (found[1] or found[2]).decode() if found else ""


def _region(response: aiohttp.ClientResponse, body: bytes) -> str:
    named = response.headers.get("x-amz-bucket-region", "")
    found = _REGION.search(body)
    return named if _NAMED_REGION.fullmatch(named) else found[1].decode() if found else ""


def _seconds(value: str) -> float | None:
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None
