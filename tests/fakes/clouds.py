"""AWS, Azure and Google on loopback, under their own names.

A proxy leads every CONNECT to one TLS server, which answers as the host that was asked for: so what
is tested sends real URLs and checks real host names. A second server is the node's metadata
services. What comes is checked as the real ones check it: signatures of tokens against the issuer's
keys, their audiences and subjects, SigV4 signatures, IMDSv2 tokens, scopes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import trustme
from aiohttp import web

from tests.fakes import cloudaws, cloudazure, cloudgcp
from tests.fakes.issuer import Issuer, Json, RefusedError, verify
from tests.fakes.serving import certified, serving
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Endpoint
from toolkit.remote.proxy import Proxy

Handler = Callable[[web.BaseRequest, bytes], Awaitable[web.Response]]
MakeCloud = Callable[..., Cloud]
"""Makes a way in, for a process with these environment variables."""

ISSUER: Final = Issuer()
"""The issuer whose tokens tests show."""

_NAMES = (
    "*.eu-west-1.amazonaws.com",
    "*.us-east-1.amazonaws.com",
    "*.cn-north-1.amazonaws.com.cn",
    "api.ecr.eu-west-1.amazonaws.com",
    "api.ecr-public.us-east-1.amazonaws.com",
    "login.microsoftonline.com",
    "management.azure.com",
    "*.azurecr.io",
    "*.vault.azure.net",
    "*.googleapis.com",
    "*.servicebus.windows.net",
    "dev.azure.com",
)


@dataclass
class Request:
    """What came in."""

    host: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeClouds:
    """The three clouds, what they know, and what they were asked.

    ``more`` are further services, by the beginning or the end of their hosts.
    """

    issuers: dict[str, Json] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    slow: asyncio.Event | None = None
    trust: Endpoint = field(default_factory=Endpoint)
    node: str = ""
    more: dict[str, Handler] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.aws = cloudaws.Aws(self.claims)
        self.azure = cloudazure.Azure(self.claims)
        self.gcp = cloudgcp.Gcp(self.claims)

    def believe(self, issuer: Issuer) -> None:
        """Register an issuer's keys, as one does with a cluster's at each cloud."""
        self.issuers[issuer.url] = issuer.jwks()

    def claims(self, token: str, issuer: str, audience: str) -> Json:
        """Return the claims of a token, checked."""
        if issuer not in self.issuers:
            raise RefusedError(f"{issuer} is not registered")
        return verify(token, jwks=self.issuers[issuer], issuer=issuer, audience=audience)

    def asked(self, host: str, path: str = "") -> int:
        """Return how many requests there were for a host and the beginning of a path."""
        return sum(r.host == host and r.path.startswith(path) for r in self.requests)

    @property
    def proxy(self) -> Proxy:
        """Return the way to them."""
        assert self.trust.proxy
        return self.trust.proxy

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeClouds"]:
        """Serve until the block ends."""
        authority = trustme.CA()
        context = certified(authority, *_NAMES)
        async with serving(self._tls, tls=context) as tls, serving(self._plain) as plain:
            proxy = await asyncio.start_server(self._connect(tls), "127.0.0.1", 0)
            async with proxy:
                port = proxy.sockets[0].getsockname()[1]
                self.trust = Endpoint(
                    ca=authority.cert_pem.bytes(), proxy=Proxy(address=f"http://127.0.0.1:{port}")
                )
                self.node = f"http://127.0.0.1:{plain}"
                yield self

    async def _tls(self, request: web.BaseRequest) -> web.Response:
        host = request.host.partition(":")[0]
        for part, handler in self.more.items():
            if host.startswith(part) or host.endswith(part):
                return await self._answer(host, request, handler)
        if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
            return await self._answer(host, request, self.aws.answer)
        if host.endswith((".microsoftonline.com", ".azure.com", ".azurecr.io")):
            return await self._answer(host, request, self.azure.answer)
        return await self._answer(host, request, self.gcp.answer)

    async def _plain(self, request: web.BaseRequest) -> web.Response:
        if request.path.startswith("/computeMetadata/"):
            return await self._answer("node", request, self.gcp.node)
        if request.path.startswith("/metadata/"):
            return await self._answer("node", request, self.azure.node)
        return await self._answer("node", request, self.aws.node)

    async def _answer(self, host: str, request: web.BaseRequest, handler: Handler) -> web.Response:
        body = await request.read()
        self.requests.append(
            Request(host, request.method, request.path_qs, dict(request.headers), body)
        )
        if self.slow:
            await self.slow.wait()
        if host in self.down:
            return web.Response(status=500)
        try:
            return await handler(request, body)
        except RefusedError as exc:
            return web.json_response({"message": str(exc)}, status=403)

    def _connect(
        self, tls: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split(" ", 2)
                self.dialled.append(target)
                if method != "CONNECT" or not target.endswith(":443"):
                    writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
                    return
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                there, onwards = await asyncio.open_connection("127.0.0.1", tls)
                await asyncio.gather(_copy(reader, onwards), _copy(there, writer))
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

        return serve


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with suppress(ConnectionError):
        writer.close()
