"""The one way to a service: within the rules for untrusted servers, and the limits of a Place."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllers.notification.sending.targets import Place
from controllers.notification.services.service import Answer, Line, UnsuitableError
from toolkit.remote import causes
from toolkit.remote.dialling import OutOfReachError, Reach
from toolkit.remote.errors import HttpError
from toolkit.remote.http import http as transport
from toolkit.remote.http import reach as dialling
from toolkit.remote.http.http import Http
from toolkit.remote.tls import client_context

_MOST_ANSWER: Final = 4 << 20
_LONGEST_LINE: Final = 64 << 10
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Asking:
    """Requests to one service."""

    def __init__(self, http: Http, place: Place) -> None:
        self._http = http
        self._place = place

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NONE,
    ) -> Answer:
        """Send a request; redirects are errors."""
        async with self._http.request(
            method,
            url,
            endpoint=self._place.endpoint,
            headers=headers,
            body=body,
            timeout=self._place.timeout,
        ) as response:
            if response.status >= 300:
                raise HttpError(
                    f"the service redirects a {method} with HTTP {response.status}: write the "
                    "address that it redirects to",
                    status=response.status,
                )
            found = await transport.read(response, limit=_MOST_ANSWER)
            return Answer(status=response.status, body=found, headers=dict(response.headers))

    async def dial(self, host: str, port: int) -> Line:
        """Connect to a service that does not use HTTP."""
        endpoint = self._place.endpoint
        if endpoint.proxy is not None:
            raise UnsuitableError("this service is not reached through a proxy: remove it")
        # The same limit as for HTTP (``toolkit.remote.http.http``, rule 3).
        reach = Reach.NOT_METADATA if endpoint.private else Reach.PUBLIC
        context = client_context(endpoint.ca, endpoint.client_cert, endpoint.client_key)

        try:
            async with asyncio.timeout(self._place.timeout):
                made = await dialling.dial(host, port, reach)
        except OutOfReachError as exc:
            raise HttpError(f"'{host}' is not asked: {exc}") from exc
        except OSError as exc:
            raise HttpError(f"cannot connect to '{host}': {causes.cause(exc)}") from exc
        reader, writer = await asyncio.open_connection(sock=made, limit=_LONGEST_LINE)
        secure = not endpoint.plain_http or bool(endpoint.ca or endpoint.client_cert)
        return Line(reader=reader, writer=writer, context=context, secure=secure)
