"""Git over HTTP: dulwich's client on a connection pool of its own for every call.

dulwich speaks the protocol; what is decided here is whom to trust and whom to tell:

1. With a CA in the Secret only that CA counts, otherwise only the system's.
2. Credentials go to the origin that they were given for, and nowhere else.
3. Only the first request may be redirected (as ``http.followRedirects=initial``), a few times,
   never from https to http, and never from a public address to a private one. Nothing leads to a
   metadata service, neither a URL nor a proxy.
4. A server cannot name another place to fetch packs from.
5. Only the smart protocol is spoken.
"""

import io
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urljoin

import urllib3
from dulwich.client import AbstractHttpGitClient
from urllib3.connection import HTTPConnection, HTTPSConnection

from toolkit.remote import causes, tls
from toolkit.remote.dialling import Known, OutOfReachError, Reach
from toolkit.remote.git import packets
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.dial import Dial
from toolkit.remote.git.errors import (
    GitAuthError,
    GitError,
    GitLoginError,
    RepositoryNotFoundError,
)
from toolkit.remote.git.limits import MiB
from toolkit.remote.git.service import Service
from toolkit.remote.git.url import GitUrl
from toolkit.remote.proxy import basic

USER_AGENT: Final = "penstock (git)"
CONNECT_SECONDS: Final = 30.0
MAX_REDIRECTS: Final = 5

_MAX_REFERENCES: Final = 64 * MiB


class HttpClient(AbstractHttpGitClient):
    """Talks to one repository; ``timeout`` bounds each wait for the server, in seconds."""

    def __init__(
        self, url: GitUrl, auth: GitAuth, *, dial: Dial, timeout: float, service: Service
    ) -> None:
        super().__init__(str(url), thin_packs=False)
        self._service = service
        self._listing = f"info/refs?service={service.name}"
        self._advertisement = f"application/x-{service.name}-advertisement"
        self._top = url
        self._base = url
        self._authorization = _authorization(url, auth)
        self._dial = dial
        self._pool = _pool(auth, dial, timeout)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _get_url(self, path: str | bytes) -> str:  # noqa: ARG002  # one client is one repository
        return str(self._top).rstrip("/") + "/"

    def _http_request(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: bytes | Iterator[bytes] | None = None,
        raise_for_status: bool = True,  # noqa: FBT001, FBT002, ARG002  # dulwich's signature
    ) -> tuple[Any, Callable[[int], bytes]]:
        """Send a request on behalf of dulwich, under the rules above."""
        redirects = 0
        while True:
            response = self._send(url, headers or {}, data)
            location = response.get_redirect_location()
            if not location:
                break
            response.drain_conn()
            if data is not None or redirects == MAX_REDIRECTS:
                raise GitError(f"'{self._top}' redirects to a forbidden address, or too often")
            redirects += 1
            url = self._follow(url, location)
        try:
            self._check(url, response)
        except GitError:
            response.close()
            raise
        read = self._reader(response)
        if data is None:
            # dulwich does not close this one, and the connection is wanted for the next request.
            read = _whole(read, self._top)
        answer = _Answer(response, url if redirects else "")
        return answer, packets.watched(read, self._top)

    def _send(self, url: str, headers: dict[str, str], data: bytes | Iterator[bytes] | None) -> Any:
        target = GitUrl.parse(url)
        self._dial.require(target.host)  # (3)
        # (4) dulwich would also fetch a pack from another URL that the server names.
        if target.origin != self._base.origin:
            raise GitError(f"'{self._top}' refers to another server for its objects")
        sent = {**headers, "User-Agent": USER_AGENT, "Pragma": "no-cache"}
        if self._authorization and target.origin == self._top.origin:  # (2)
            sent["Authorization"] = self._authorization
        try:
            return self._pool.request(
                "GET" if data is None else "POST",
                url,
                body=data,
                headers=sent,
                preload_content=False,
                redirect=False,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as exc:
            raise self._failed(exc) from exc

    def _reader(self, response: Any) -> Callable[[int], bytes]:
        def read(size: int) -> bytes:
            try:
                return bytes(response.read(size))
            except urllib3.exceptions.HTTPError as exc:
                raise self._failed(exc) from exc

        return read

    def _failed(self, error: urllib3.exceptions.HTTPError) -> GitError:
        if _proxy_status(error) == "407":
            return GitAuthError("the proxy requires valid credentials")
        return GitError(f"cannot {self._service.verb} '{self._top}': {_cause(error)}")

    def _follow(self, url: str, location: str) -> str:
        """Return where a redirect may lead."""
        try:
            joined = urljoin(url, location)
        except ValueError as exc:
            raise GitError(f"'{self._top}' redirects to something that is not a URL") from exc
        target = GitUrl.parse(joined)
        current = GitUrl.parse(url)
        if target.scheme not in {"http", "https"} or not target.path.endswith(self._listing):
            raise GitError(f"'{self._top}' redirects to something that is not a repository")
        if current.scheme == "https" and target.scheme == "http":
            raise GitError(f"'{self._top}' redirects from https to http")
        try:
            self._dial.lead(current.host, target.host)  # (3)
        except GitError as exc:
            raise GitError(f"'{self._top}' redirects to a forbidden address: {exc}") from exc
        self._base = target
        return str(target)

    def _check(self, url: str, response: Any) -> None:
        status = response.status
        if status in {401, 403}:
            refused = "refused the credentials" if self._authorization else "asks for credentials"
            remedy = self._service.remedy
            raise GitLoginError(f"'{self._top}' {refused} (HTTP {status}){remedy}")
        if status == 407:
            raise GitAuthError("the proxy requires valid credentials")
        if status == 404:
            raise RepositoryNotFoundError(f"repository '{self._top}' not found")
        if status != 200:
            raise GitError(f"'{self._top}' answered with HTTP {status}")
        kind = response.headers.get("Content-Type", "")
        if url.endswith(self._listing) and kind.split(";")[0] != self._advertisement:
            raise GitError(f"'{self._top}' is not a Git repository over smart HTTP")


def _whole(read: Callable[[int], bytes], url: GitUrl) -> Callable[[int], bytes]:
    """Read a list of references to its end."""
    data = read(_MAX_REFERENCES)
    if read(1):
        raise GitError(f"'{url}' lists more references than can be read")
    return io.BytesIO(data).read


class _Answer:
    """The part of a response that dulwich uses; closing it keeps the connection for reuse."""

    def __init__(self, response: urllib3.BaseHTTPResponse, redirect_location: str) -> None:
        self._response = response
        self.content_type = response.headers.get("Content-Type")
        self.redirect_location = redirect_location

    def close(self) -> None:
        """Read the end of the body if that is all that is left, otherwise close the connection."""
        with suppress(urllib3.exceptions.HTTPError):
            if not self._response.read(1):
                self._response.release_conn()
                return
        self._response.close()


def _authorization(url: GitUrl, auth: GitAuth) -> str | None:
    if auth.bearer_token is not None:
        return f"Bearer {auth.bearer_token}"
    if auth.username is not None:
        return basic(auth.username, auth.password)
    if url.username is not None:
        return basic(url.username, url.password)
    return None


def _pool(auth: GitAuth, dial: Dial, timeout: float) -> urllib3.PoolManager:
    proxy = dial.proxy
    options: dict[str, Any] = {
        "num_pools": 4,
        # This is (1). A server of http may redirect to one of https.
        "ssl_context": tls.client_context(auth.ca, auth.client_cert, auth.client_key),
        "timeout": urllib3.Timeout(connect=min(timeout, CONNECT_SECONDS), read=timeout),
    }
    if proxy is None or proxy.endpoint[0] == "socks5":
        pool = urllib3.PoolManager(**options)
    else:
        login = proxy.authorization
        pool = urllib3.ProxyManager(
            proxy.address,
            proxy_headers={"Proxy-Authorization": login} if login else None,
            proxy_ssl_context=tls.client_context(auth.ca),
            **options,
        )
        # urllib3 then connects to the proxy.
        dial = Dial(reach=Reach.NOT_METADATA, known=Known(), proxy=None)
    pool.pool_classes_by_scheme = _pool_classes(dial)
    return pool


def _pool_classes(dial: Dial) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """Return urllib3's pools by scheme, with connections that are dialled under our rules."""

    class PlainConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _dialled(self, dial)

    class TlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _dialled(self, dial)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = PlainConnection

    class TlsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": PlainPool, "https": TlsPool}


def _dialled(connection: HTTPConnection, dial: Dial) -> socket.socket:
    """Connect, with errors of urllib3."""
    given = connection.timeout
    seconds = given if isinstance(given, int | float) else CONNECT_SECONDS
    try:
        opened = dial(connection._dns_host, connection.port, timeout=seconds)  # noqa: SLF001  # what urllib3's own method dials
    except OutOfReachError as exc:  # (3)
        raise GitError(f"cannot connect: {exc}") from exc
    except TimeoutError as exc:
        raise urllib3.exceptions.ConnectTimeoutError(connection, causes.NO_RESPONSE) from exc
    except OSError as exc:
        raise urllib3.exceptions.NewConnectionError(connection, causes.cause(exc)) from exc
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _cause(error: BaseException) -> str:
    """Return the innermost reason, without urllib3's wrapping and object addresses."""
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not refused:
        return causes.NO_RESPONSE
    if isinstance(error, urllib3.exceptions.ProxyError):
        status = _proxy_status(error)
        why = f"HTTP {status}" if status else _cause(error.original_error)
        return f"the proxy did not connect: {why}"
    inner = error.__cause__ or (error.args[-1] if error.args else None)
    return causes.cause(inner if isinstance(inner, BaseException) else error)


def _proxy_status(error: BaseException) -> str:
    """Return the status with which a proxy refused to connect, if that is what happened."""
    if not isinstance(error, urllib3.exceptions.ProxyError):
        return ""
    found = _TUNNEL.match(str(error.original_error))
    return found[1] if found else ""


_TUNNEL: Final = re.compile(r"Tunnel connection failed: ([0-9]{3})\b")
"""``http.client`` has no exception for this; the rest of the text comes from the proxy."""
