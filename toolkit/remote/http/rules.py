"""Rules for one hop of a request: valid URLs, credentials, and redirects.

Nothing here does IO; ``http`` uses it. The numbers of the rules are those in ``http``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from toolkit.remote import webaddress
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import HttpError
from toolkit.remote.proxy import Proxy, from_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One server of a request, and the credentials for it."""

    url: URL
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The connection to a hop; ``headers`` are for the request, ``proxy_headers`` for CONNECT.

    ``socks`` is a proxy for the connection below HTTP.
    """

    proxy: str | None = None
    socks: Proxy | None = None
    proxy_headers: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


_LONGEST_URL: Final = 8192


def shown(url: URL | str) -> str:
    """Return a URL without what may be secret in it."""
    try:
        return str(webaddress.read(url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:
        return ascii(str(url).partition("?")[0].rpartition("@")[2][:200])[1:-1]


def parsed(url: str) -> URL:
    """Return a URL unchanged, because a signed one must not be quoted again.

    Raises:
        HttpError: it is not an HTTP URL, or contains credentials.
    """
    if not (url.isascii() and url.isprintable()) or " " in url or len(url) > _LONGEST_URL:
        raise HttpError(f"the URL '{shown(url)}' is too long, or has invalid characters")
    try:
        found = webaddress.read(url, encoded=True)
        port = found.port
    except ValueError as exc:
        raise HttpError(f"'{shown(url)}' is not a URL") from exc
    if found.scheme not in {"http", "https"} or not found.host or not port:
        raise HttpError(f"'{shown(url)}' is not an HTTP URL")
    if found.user is not None or found.password is not None:
        raise HttpError(f"the URL '{shown(url)}' holds credentials: put them into a Secret")
    return found


def route(hop: Hop) -> Route:
    """Return the route to a server: through the endpoint's proxy, or the environment's.

    Raises:
        HttpError: the URL is plain HTTP, and TLS is required.
    """
    url = hop.url
    if url.scheme == "http" and not hop.endpoint.plain_http:
        raise HttpError(f"'{shown(url)}' is plain HTTP, which is not allowed here")
    proxy = hop.endpoint.proxy
    if proxy is None and not hop.endpoint.node:
        proxy = from_environment(url.scheme, url.host or "", url.port or 0)
    if proxy is None:
        return Route()
    if proxy.endpoint[0] == "socks5":
        return Route(socks=proxy)
    login = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
    if url.scheme == "https":
        # With CONNECT only, and not on to the server.
        return Route(proxy=proxy.address, proxy_headers=login or None)
    return Route(proxy=proxy.address, headers=login)


def follow(hop: Hop, location: str) -> Hop:
    """Return where a redirect leads, and with which credentials.

    Raises:
        HttpError: it leads to no URL, or from https to http.
    """
    if not location:
        raise HttpError(f"'{shown(hop.url)}' redirects without an address")
    try:
        target = parsed(str(hop.url.join(webaddress.read(location, encoded=True))))
    except ValueError as exc:
        raise HttpError(f"'{shown(hop.url)}' redirects to an invalid URL") from exc
    # Rule 3.
    if hop.url.scheme == "https" and target.scheme != "https":
        raise HttpError(f"'{shown(hop.url)}' redirects from https to http")
    # Rule 2.
    if target.origin() == hop.url.origin() or hop.endpoint.pass_credentials:
        return Hop(url=target, endpoint=hop.endpoint)
    return Hop(url=target, endpoint=hop.endpoint.anonymous())
