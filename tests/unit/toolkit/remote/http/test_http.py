"""Servers and proxies whose answers are not taken, and addresses that are not asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from toolkit.remote.errors import HttpError
from toolkit.remote.http import http as client
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.proxy import Proxy

PLAIN = Endpoint(plain_http=True)


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """Serve these bytes to every request, and then close the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_client_that_is_not_open_asks_nobody() -> None:
    with pytest.raises(RuntimeError, match="the HTTP client is not open"):
        async with Http().request("GET", "http://127.0.0.1:1/", endpoint=PLAIN, timeout=5):
            pass


async def test_body_that_is_announced_too_long_is_not_read() -> None:
    async with (
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") as url,
        Http() as http,
        http.request("GET", url, endpoint=PLAIN, timeout=20) as response,
    ):
        with pytest.raises(HttpError, match="answers with more than 10 bytes"):
            await client.read(response, limit=10)


async def test_proxy_that_does_not_connect_is_told_by_its_status() -> None:
    async with saying(b"HTTP/1.1 502 Bad Gateway\r\n\r\n") as address, Http() as http:
        endpoint = Endpoint(proxy=Proxy(address=address))
        with pytest.raises(HttpError, match=r"^the proxy did not connect: HTTP 502$"):
            async with http.request("GET", "https://a.example/", endpoint=endpoint, timeout=20):
                pass


async def test_name_that_leads_further_than_its_author_may_is_not_asked() -> None:
    public, here = "https://8.8.8.8/", "http://localhost:1/"  # neither is connected to
    async with Http() as http:
        with pytest.raises(HttpError, match=rf"^'{here}' is not asked: .*private address"):
            async with http.request("GET", here, endpoint=PLAIN, timeout=20, named_by=public):
                pass
