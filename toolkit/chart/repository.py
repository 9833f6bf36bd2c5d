"""A chart repository over HTTP: its index, and the charts in the index.

The author of an index chooses the URLs of charts. So a chart on another origin than the repository
is requested without credentials, unless the user allows it. Credentials of an https repository are
never sent without TLS. A chart is only kept if it has the digest of the index.
"""

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import aiohttp

from toolkit.chart import limits
from toolkit.chart.errors import ChartPullError, IndexationError
from toolkit.chart.wire import Found
from toolkit.remote.http.http import Endpoint, Http, HttpError


@dataclass(frozen=True, slots=True, kw_only=True)
class Validators:
    """The validators of an index for conditional requests (RFC 9110, 13.1)."""

    etag: str = ""
    modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a conditional request."""
        headers = {"If-None-Match": self.etag} if self.etag else {}
        return headers | ({"If-Modified-Since": self.modified} if self.modified else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """An index that was written: its hex digest, and how to ask whether it has changed."""

    digest: str
    validators: Validators


async def download_index(  # noqa: PLR0913  # a request has these parts
    http: Http,
    url: str,
    endpoint: Endpoint,
    into: Path,
    *,
    known: Validators | None = None,
    timeout: float,  # noqa: ASYNC109  # one deadline over all hops
) -> Downloaded | None:
    """Write the repository's index.yaml to ``into``; return None if ``known`` is current.

    Raises:
        HttpError: the server cannot be reached, or refused the request.
        IndexationError: the index is too large, or was damaged in transfer.
    """
    headers = {"Accept-Encoding": "gzip"} | (known.headers if known else {})
    place = index_url(url)
    request = http.request("GET", place, endpoint=endpoint, headers=headers, timeout=timeout)
    async with request as response:
        if response.status == 304 and known is not None:
            return None
        _require_ok(response, place)
        coding = response.headers.get("Content-Encoding", "").strip().lower()
        sink = _Sink(limits.INDEX_BYTES, compressed=coding in ("gzip", "x-gzip"))
        try:
            await _receive(response.content, into, sink)
        except _TooMuchError as exc:
            raise IndexationError(
                f"the index is larger than {limits.INDEX_BYTES >> 20} MiB"
            ) from exc
        except zlib.error as exc:
            raise IndexationError("the index was damaged on its way") from exc
        validators = Validators(
            etag=_header(response, "ETag"), modified=_header(response, "Last-Modified")
        )
        return Downloaded(digest=sink.digest, validators=validators)


async def download_chart(  # noqa: PLR0913  # a request has these parts
    http: Http,
    url: str,
    found: Found,
    endpoint: Endpoint,
    into: Path,
    *,
    timeout: float,  # noqa: ASYNC109  # one deadline over all hops
) -> None:
    """Write the package ``found`` in the index of the repository ``url`` to ``into``.

    Raises:
        ChartPullError: the package cannot be fetched, is too large, or has another digest.
    """
    place = chart_url(url, found.urls[0])
    sink = _Sink(limits.CHART_BYTES)
    try:
        async with _asked(http, url, place, endpoint, timeout) as response:
            await _receive(response.content, into, sink)
    except HttpError as exc:
        raise ChartPullError(f"the chart '{found.name}' cannot be fetched: {exc}") from exc
    except _TooMuchError as exc:
        raise ChartPullError(
            f"the chart '{found.name}' is larger than {limits.CHART_BYTES >> 20} MiB"
        ) from exc
    expected = found.digest.removeprefix("sha256:").lower()
    if expected and sink.digest != expected:
        raise ChartPullError(
            f"the chart '{found.name}' in version '{found.version}' has the digest "
            f"sha256:{sink.digest}, and not that of the index, sha256:{expected[:64]}"
        )
    if not expected and _scheme(place) == "http" and _scheme(url) == "https":
        raise ChartPullError(
            f"the index has no digest for the chart '{found.name}' in version "
            f"'{found.version}', whose URL is plain HTTP"
        )


def index_url(url: str) -> str:
    """Return the address of the index of the repository at ``url``.

    Raises:
        HttpError: it is not a URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise HttpError("the address of the repository is not a URL") from exc
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/index.yaml", fragment=""))


def chart_url(url: str, reference: str) -> str:
    """Return the address of a chart, which may be relative to the repository's.

    A relative one inherits the query of the repository, as in Helm.

    Raises:
        ChartPullError: it is not an HTTP address.
    """
    try:
        base, wanted = urlsplit(url), urlsplit(reference)
        if wanted.scheme:
            joined = wanted
        else:
            folder = urlunsplit(base._replace(path=f"{base.path.rstrip('/')}/", query=""))
            joined = urlsplit(urljoin(folder, reference))._replace(query=base.query)
        _ = base.port, joined.port
    except ValueError as exc:
        raise ChartPullError("the index has a chart URL that is invalid") from exc
    if joined.scheme not in ("http", "https") or not joined.netloc:
        raise ChartPullError(
            f"the index names '{ascii(reference)[1:-1][:200]}' as a chart: only http and https "
            "can be fetched"
        )
    return urlunsplit(joined._replace(fragment=""))


def normalized(url: str) -> str:
    """Return a repository's URL in the form that two spellings of it have in common.

    A text that is not a URL is returned as it is.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


class _TooMuchError(Exception):
    """More came than may."""


class _Sink:
    """Counts, hashes and decompresses received bytes."""

    def __init__(self, limit: int, *, compressed: bool = False) -> None:
        self._limit = limit
        self._left = limit
        self._hash = hashlib.sha256()
        self._inflate = zlib.decompressobj(31) if compressed else None

    @property
    def digest(self) -> str:
        """Return the hex digest of the written bytes."""
        return self._hash.hexdigest()

    def take(self, data: bytes, file: IO[bytes]) -> None:
        if self._inflate is None:
            self._put(data, file)
            return
        more = bool(data)
        while more:
            # Output is bounded by the limit plus one chunk, for any compression ratio.
            inflated = self._inflate.decompress(data, _CHUNK)
            self._put(inflated, file)
            data = self._inflate.unconsumed_tail
            more = bool(data) or len(inflated) == _CHUNK

    def finish(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise zlib.error("cut off")

    def _put(self, data: bytes, file: IO[bytes]) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise _TooMuchError
        self._hash.update(data)
        file.write(data)


_CHUNK: Final = 1 << 20
_LONGEST_HEADER: Final = 1024


async def _receive(content: aiohttp.StreamReader, into: Path, sink: _Sink) -> None:
    """Write a body to a file, a piece at a time and off the event loop."""
    with await asyncio.to_thread(into.open, "wb") as file:
        pending = bytearray()
        async for chunk in content.iter_any():
            pending += chunk
            if len(pending) >= _CHUNK:
                await asyncio.to_thread(sink.take, bytes(pending), file)
                pending.clear()
        await asyncio.to_thread(sink.take, bytes(pending), file)
        sink.finish()


@asynccontextmanager
async def _asked(
    http: Http,
    repository: str,
    place: str,
    endpoint: Endpoint,
    timeout: float,  # noqa: ASYNC109  # one deadline over all hops
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Ask for a chart that a repository named, with its credentials where they may be shown."""
    home, there = urlsplit(repository), urlsplit(place)
    same = _origin(home) == _origin(there)
    exposed = home.scheme == "https" and there.scheme == "http"
    shown = endpoint if same or (endpoint.pass_credentials and not exposed) else None
    async with http.request(
        "GET",
        place,
        endpoint=shown or endpoint.anonymous(),
        timeout=timeout,
        named_by=repository,
    ) as response:
        _require_ok(response, place)
        yield response


_PORTS: Final = {"http": 80, "https": 443}


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _scheme(url: str) -> str:
    return urlsplit(url).scheme


def _require_ok(response: aiohttp.ClientResponse, place: str) -> None:
    if response.status != 200:
        parts = urlsplit(place)
        shown = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        raise HttpError(f"'{shown}' answered with HTTP {response.status}", status=response.status)


def _header(response: aiohttp.ClientResponse, name: str) -> str:
    value = response.headers.get(name, "")
    return value if len(value) <= _LONGEST_HEADER else ""
