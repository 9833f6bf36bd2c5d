"""Requests to the services of a cloud: bounded answers, and errors that name the identity.

The services must have certificates of the system's CAs, or of the operator's, but never of an
object's CA: a user who chose both proxy and CA could read the tokens of this process. An object's
proxy is used, because through TLS it sees only host names, but not for metadata services on the
node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlencode

from toolkit import untrusted
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.http import http
from toolkit.remote.http.http import Endpoint, Http, HttpError
from toolkit.remote.proxy import Proxy

Json = dict[str, Any]

_LIMIT: Final = 4 << 20
_SECONDS: Final = 20.0
_NODE_SECONDS: Final = 5.0
_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """The connection to clouds: ``trust`` is the operator's CA and proxy, if any."""

    http: Http
    trust: Endpoint

    async def ask(  # noqa: PLR0913  # the parts of a request, and its purpose
        self,
        method: str,
        url: str,
        *,
        purpose: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes | None = None,
        bearer: str | None = None,
        proxy: Proxy | None = None,
        plain: bool = False,
    ) -> bytes:
        """Return the body of the answer. ``plain`` is whether the operator named a URL of http.

        Raises:
            CloudError: refused or out of reach; the message begins with ``purpose``.
        """
        endpoint = replace(
            self.trust, bearer_token=bearer, proxy=proxy or self.trust.proxy, plain_http=plain
        )
        return await self._send(
            method, url, endpoint, purpose=purpose, headers=headers, body=body, seconds=_SECONDS
        )

    async def ask_node(
        self,
        method: str,
        url: str,
        *,
        purpose: str,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """Return the answer of the node's metadata service, without a proxy and without TLS.

        Raises:
            CloudError: the service does not exist, or refuses.
        """
        return await self._send(
            method,
            url,
            Endpoint(plain_http=True, node=True),
            purpose=purpose,
            headers=headers,
            body=None,
            seconds=_NODE_SECONDS,
        )

    async def _send(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        url: str,
        endpoint: Endpoint,
        *,
        purpose: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
    ) -> bytes:
        try:
            async with self.http.request(
                method, url, endpoint=endpoint, headers=headers, body=body, timeout=seconds
            ) as response:
                return await http.read(response, limit=_LIMIT)
        except HttpError as exc:
            raise CloudError(f"{purpose}: {exc}") from exc


def form(**fields: str) -> tuple[Mapping[str, str], bytes]:
    """Return headers and body of an HTML form, which is what token services want."""
    return {"Content-Type": _FORM, "Accept": "application/json"}, urlencode(fields).encode()


def decoded(body: bytes, *, purpose: str) -> Json:
    """Return the JSON object in an answer.

    Raises:
        CloudError: the answer is not a JSON object.
    """
    try:
        return untrusted.load_json(body, dict[str, Any], size=_LIMIT)
    except untrusted.UntrustedError as exc:
        raise CloudError(f"{purpose}: the answer is not a JSON object: {exc}") from exc


def text_field(answer: Json, *path: str, purpose: str) -> str:
    """Return a string from within an answer.

    Raises:
        CloudError: it is missing.
    """
    value: Any = answer
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value:
        raise CloudError(f"{purpose}: the answer lacks '{'.'.join(path)}'")
    return value


def segment(text: str) -> str:
    """Return text as one segment of a URL's path."""
    return quote(text, safe="")
