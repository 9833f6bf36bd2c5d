"""What listens at an address that a tenant chose is not quoted to the tenant."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

import asyncssh
import pytest

from tests.loopback.git.conftest import InProcess
from toolkit.errors import PenstockError
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.remote.dialling import Reach
from toolkit.remote.git.git import GitAuth, GitClient, GitReference, Proxy

MAIN = GitReference(branch="main")
BANNERS = (
    b"SSH-2.0-quoted\r\n\r\n",
    b"220 quoted ESMTP\r\n\r\n",
    b"\xff\xfequoted\r\n\r\n",
    b"HTTP/1.1 502 quoted\r\n\r\n",
)
ANSWERS = (
    *BANNERS,
    b"HTTP/1.1 200 OK\r\nquoted\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nquoted\r\n",
)


@contextlib.asynccontextmanager
async def greeting(banner: bytes) -> AsyncIterator[int]:
    """Serve a protocol whose server speaks first; give the port."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def refusal(url: str, auth: GitAuth) -> str:
    with pytest.raises(PenstockError) as caught:
        await GitClient(InProcess()).resolve(url, MAIN, auth, timeout=10, flow="team")
    return str(caught.value)


@pytest.mark.parametrize("banner", ANSWERS)
async def test_git_does_not_quote_a_server(banner: bytes) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    known = b"* " + key.export_public_key()
    async with greeting(banner) as port:
        place = f"127.0.0.1:{port}"
        http = await refusal(f"http://{place}/a", GitAuth())
        ssh = await refusal(
            f"ssh://git@{place}/a", GitAuth(identity=key.export_private_key(), known_hosts=known)
        )

    assert "quoted" not in http + ssh


@pytest.mark.parametrize("code", range(1, 17))
async def test_git_does_not_quote_a_disconnect_message(code: int) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    auth = GitAuth(identity=key.export_private_key(), known_hosts=b"* " + key.export_public_key())
    async with greeting(b"SSH-2.0-server\r\n" + disconnect(code, b"quoted")) as port:
        told = await refusal(f"ssh://git@127.0.0.1:{port}/a", auth)

    assert "quoted" not in told


def disconnect(code: int, reason: bytes) -> bytes:
    """Return SSH_MSG_DISCONNECT as a packet without encryption (RFC 4253, sections 6 and 11.1)."""
    payload = struct.pack(">BLL", 1, code, len(reason)) + reason + struct.pack(">L", 0)
    padding = 8 - (5 + len(payload)) % 8 + 8
    return struct.pack(">LB", 1 + len(payload) + padding, padding) + payload + bytes(padding)


@pytest.mark.parametrize("banner", BANNERS)
@pytest.mark.parametrize("server", ["http://192.0.2.1/a", "https://192.0.2.1/a"])
async def test_git_does_not_quote_a_proxy(banner: bytes, server: str) -> None:
    async with greeting(banner) as port:
        proxy = Proxy(address=f"http://127.0.0.1:{port}")
        told = await refusal(server, GitAuth(proxy=proxy))

    assert "quoted" not in told


@pytest.mark.parametrize("banner", ANSWERS)
async def test_client_of_a_cluster_does_not_quote_a_server(banner: bytes) -> None:
    assert "quoted" not in await answer_of_cluster(banner, Reach.ANYWHERE)


async def answer_of_cluster(answer: bytes, reach: Reach) -> str:
    async with greeting(answer) as port:
        config = ClusterConfig(server=f"http://127.0.0.1:{port}")
        async with Client.open(config, reach=reach) as client:
            with pytest.raises(errors.ApiError) as caught:
                await client.request("POST", "/api", body={})
    return str(caught.value)


@pytest.mark.parametrize("body", ["quoted", '{"message":"quoted"}', '["quoted"]'])
async def test_page_of_what_is_no_cluster_is_not_quoted(body: str) -> None:
    told = await answer_of_cluster(failure(body), Reach.NOT_METADATA)

    assert told == "the server answered with status 404"


async def test_status_of_a_cluster_is_quoted() -> None:
    body = '{"kind":"Status","message":"no such thing"}'

    assert await answer_of_cluster(failure(body), Reach.NOT_METADATA) == "no such thing"
    assert await answer_of_cluster(failure("no route"), Reach.ANYWHERE) == "no route"


def failure(body: str) -> bytes:
    return f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
