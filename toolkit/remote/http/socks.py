"""Connections through a SOCKS 5 proxy for aiohttp, which supports HTTP proxies only.

``tunnel`` does the handshake, in a thread. The proxy resolves names, so nothing is resolved here.
The connector overrides a private method of aiohttp. The version of aiohttp is locked, and a test
connects in this way.
"""

import asyncio
import functools
import socket
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from toolkit.remote import tunnel
from toolkit.remote.http import reach
from toolkit.remote.proxy import Proxy

if TYPE_CHECKING:
    from concurrent.futures import Future


class SocksConnector(aiohttp.TCPConnector):
    """A pool whose connections go through one proxy; ``seconds`` bound a handshake."""

    def __init__(self, proxy: Proxy, *, seconds: float, **options: Any) -> None:
        super().__init__(resolver=_Unresolved(), **options)
        self._socks = proxy
        self._seconds = seconds

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: Any,  # noqa: ARG002  # those of `_Unresolved`
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ARG002, ASYNC109  # aiohttp's signature
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, Any]:
        host, port = req.url.raw_host or "", req.url.port or 0
        proxy = self._socks.endpoint[1][0]
        work = functools.partial(self._connected, host, port)
        connecting = reach.strangers().shake_hands(proxy, work)
        try:
            connection = await asyncio.wrap_future(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_drop)
            raise
        try:
            return await self._loop.create_connection(*args, **kwargs, sock=connection)
        except ssl.CertificateError as exc:
            connection.close()
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, exc) from exc
        except OSError as exc:
            connection.close()
            raise client_error(req.connection_key, exc) from exc
        except BaseException:
            connection.close()
            raise

    def _connected(self, host: str, port: int) -> socket.socket:
        connection = tunnel.connect(self._socks, host, port, timeout=self._seconds)
        connection.settimeout(0)
        return connection


def _drop(connecting: "Future[socket.socket]") -> None:
    """Close a connection whose caller was cancelled."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


class _Unresolved(AbstractResolver):
    """Leaves names to the proxy; aiohttp wants to see an address in any case."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        nowhere = "0.0.0.0"  # noqa: S104  # never dialled
        return [
            ResolveResult(hostname=host, host=nowhere, port=port, family=family, proto=0, flags=0)
        ]

    async def close(self) -> None:
        pass
