"""An object store that says what it is told to: for faults, lies and looks at what was asked."""

import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from tests.fakes.serving import Handler, serving


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class FakeObjectServer:
    """Answers every request with ``answer``, and remembers what was asked."""

    def __init__(self, answer: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.answer = answer
        self.endpoint = ""
        self._tls = tls
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        port = await self._open.enter_async_context(serving(self._handle, tls=self._tls))
        self.endpoint = f"127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(
            Asked(
                method=request.method,
                target=request.raw_path,
                headers=headers,
                body=await request.read(),
            )
        )
        return await self.answer(request)


def listing(*objects: tuple[str, str, int], token: str = "") -> bytes:
    """Return a page of ListObjectsV2: keys (already encoded), entity tags and sizes."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size></Contents>"
        for key, etag, size in objects
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
    return (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<EncodingType>url</EncodingType>{more if token else ''}{entries}</ListBucketResult>"
    ).encode()


def saying(status: int, body: bytes = b"", **headers: str) -> Handler:
    """Return what always answers the same."""

    async def answer(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, headers=named)

    return answer
