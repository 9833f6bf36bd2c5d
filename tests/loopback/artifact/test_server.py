"""The artifact server as an HTTP client sees it."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import REGISTRY

from crds.meta import Artifact
from tests.fakes.serving import Serve
from toolkit.artifact import server
from toolkit.artifact.server import Patience
from toolkit.artifact.storage import Storage
from toolkit.remote.http.http import AuthError, Endpoint, Http


@pytest.fixture
async def client(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://{address}", auto_decompress=False) as session:
        yield session


async def raw(address: str, target: str, *headers: str, method: str = "GET") -> bytes:
    """Send a request target exactly as it is."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_an_artifact_is_served_with_its_digest(
    client: aiohttp.ClientSession, artifact: Artifact
) -> None:
    async with client.get(f"/{artifact.path}") as response:
        body = await response.read()

    assert response.status == 200
    assert f"sha256:{hashlib.sha256(body).hexdigest()}" == artifact.digest
    assert response.headers["ETag"] == f'"{artifact.digest}"'
    assert response.headers["X-Artifact-Digest"] == artifact.digest
    assert response.headers["Content-Type"] == "application/gzip"
    assert response.headers["Accept-Ranges"] == "bytes"
    assert response.headers["Content-Length"] == str(artifact.size)
    assert "Content-Encoding" not in response.headers
    assert "Last-Modified" in response.headers


async def test_the_link_leads_to_the_newest(
    client: aiohttp.ClientSession, artifact: Artifact
) -> None:
    async with client.get("/gitrepository/apps/web/latest.tar.gz") as response:
        assert response.headers["X-Artifact-Digest"] == artifact.digest


async def test_head_tells_all_but_the_body(address: str, artifact: Artifact) -> None:
    answer = await raw(address, f"/{artifact.path}", method="HEAD")

    head, body = answer.split(b"\r\n\r\n")
    assert b"200 OK" in head
    assert f"Content-Length: {artifact.size}".encode() in head
    assert body == b""


async def test_a_known_tag_spares_the_body(
    client: aiohttp.ClientSession, artifact: Artifact
) -> None:
    tag = f'"{artifact.digest}"'

    async with client.get(f"/{artifact.path}", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
        assert response.headers["ETag"] == tag


async def test_an_interrupted_download_can_go_on(
    client: aiohttp.ClientSession, artifact: Artifact
) -> None:
    async with client.get(f"/{artifact.path}") as response:
        whole = await response.read()
        tag = response.headers["ETag"]

    headers = {"Range": "bytes=10-", "If-Range": tag}
    async with client.get(f"/{artifact.path}", headers=headers) as response:
        rest = await response.read()

    assert response.status == 206
    assert rest == whole[10:]
    assert response.headers["Content-Range"] == f"bytes 10-{len(whole) - 1}/{len(whole)}"


async def test_a_range_behind_the_end_is_refused(
    client: aiohttp.ClientSession, artifact: Artifact
) -> None:
    headers = {"Range": f"bytes={artifact.size}-"}

    async with client.get(f"/{artifact.path}", headers=headers) as response:
        assert (response.status, await response.read()) == (416, b"")
        assert response.headers["Content-Range"] == f"bytes */{artifact.size}"


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/gitrepository",
        "/gitrepository/",
        "/gitrepository/apps/web",
        "/gitrepository/apps/web/",
        "/gitrepository/apps/web/nothing.tar.gz",
        "/gitrepository/apps/web/.digest-abc.tar.gz",
        "/../../../../etc/passwd",
        "/gitrepository/apps/web/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%252e%252e/%252e%252e/x/etc",
        "//etc/passwd/x/y",
        "/gitrepository/apps/web/abc.tar.gz%00.txt",
        "/gitrepository/apps/web/abc.tar.gz/",
        "/gitrepository\\apps\\web\\abc.tar.gz",
        "/gitrepository/apps/web/%ff",
    ],
)
async def test_nothing_else_is_there(address: str, target: str) -> None:
    answer = await raw(address, target)

    assert answer.split(b" ")[1] in (b"404", b"400")
    assert b"root:" not in answer
    assert b"abc.tar.gz" not in answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_can_be_written(address: str, artifact: Artifact, method: str) -> None:
    answer = await raw(address, f"/{artifact.path}", method=method)

    assert b" 405 " in answer.splitlines()[0]


async def test_a_link_out_of_the_store_is_not_followed(
    client: aiohttp.ClientSession, storage: Storage, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    directory = storage.root / "gitrepository" / "apps" / "web"
    (directory / "out.tar.gz").symlink_to(tmp_path / "secret")
    (storage.root / "gitrepository" / "apps" / "up").symlink_to(tmp_path)

    for path in ("web/out.tar.gz", "up/secret"):
        async with client.get(f"/gitrepository/apps/{path}") as response:
            assert response.status == 404


@pytest.mark.parametrize("content", [b"", b"damaged", None])
async def test_a_damaged_file_is_not_served(
    client: aiohttp.ClientSession, storage: Storage, artifact: Artifact, content: bytes | None
) -> None:
    async with client.get(f"/{artifact.path}") as response:
        assert response.status == 200
    file = storage.path(artifact)
    file.write_bytes(file.read_bytes()[:-1] + b"\xff" if content is None else content)

    async with client.get(f"/{artifact.path}") as response:
        assert response.status == 404


async def test_a_mended_file_is_served_again(
    client: aiohttp.ClientSession, storage: Storage, artifact: Artifact
) -> None:
    file = storage.path(artifact)
    good = file.read_bytes()
    file.write_bytes(b"damaged")
    async with client.get(f"/{artifact.path}") as response:
        assert response.status == 404

    file.write_bytes(good)

    async with client.get(f"/{artifact.path}") as response:
        assert response.status == 200


async def test_many_readers_are_served(
    client: aiohttp.ClientSession, storage: Storage, artifact: Artifact
) -> None:
    expected = storage.path(artifact).read_bytes()

    async def get() -> bytes:
        async with client.get(f"/{artifact.path}") as response:
            return await response.read()

    bodies = await asyncio.gather(*(get() for _ in range(200)))

    assert set(bodies) == {expected}


@pytest.fixture
def large(storage: Storage, artifact: Artifact) -> bytes:
    """Return the content of ``large.tar.gz``, more than sockets hold."""
    content = os.urandom(16 << 20)
    file = storage.path(artifact).with_name("large.tar.gz")
    file.write_bytes(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    file.with_name(".digest-large.tar.gz").write_text(digest)
    return content


async def begin(address: str) -> asyncio.StreamWriter:
    """Ask for the large artifact and read no more than the beginning of the answer."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readexactly(1)
    return writer


LARGE = "/gitrepository/apps/web/large.tar.gz"


async def test_a_reader_that_hangs_up_leaves_the_server_alone(
    client: aiohttp.ClientSession, address: str, large: bytes
) -> None:
    for _ in range(3):
        writer = await begin(address)
        writer.transport.abort()

    async with client.get(LARGE) as response:
        assert await response.read() == large


async def test_a_reader_that_dawdles_is_cut_off(
    storage: Storage, large: bytes, serve: Serve
) -> None:
    brisk = Patience(grace_seconds=0.05, bytes_per_second=1 << 40)
    address = await serve(server.application(storage, brisk))
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readexactly(1)

    await asyncio.sleep(0.5)

    received = 0
    with contextlib.suppress(ConnectionResetError):
        while chunk := await reader.read(1 << 20):
            received += len(chunk)
    assert received < len(large)
    writer.close()


async def test_one_reader_too_many_is_told_to_come_back(
    storage: Storage, large: bytes, serve: Serve
) -> None:
    address = await serve(server.application(storage, Patience(readers=1, queue_seconds=0.05)))
    assert large
    writer = await begin(address)

    answer = await raw(address, LARGE)

    assert b" 503 " in answer.splitlines()[0]
    assert b"Retry-After: 5" in answer
    writer.transport.abort()


async def test_requests_are_counted(client: aiohttp.ClientSession, artifact: Artifact) -> None:
    def count(code: str) -> float:
        labels = {"method": "GET", "code": code}
        return REGISTRY.get_sample_value("penstock_artifact_requests_total", labels) or 0

    found, missing = count("200"), count("404")
    for path in (artifact.path, "gitrepository/x/y/z"):
        async with client.get(f"/{path}") as response:
            await response.read()
    # A connection is used again only when the request before is through.
    async with client.head("/"):
        assert (count("200"), count("404")) == (found + 1, missing + 1)


async def test_made_up_methods_are_one_series(address: str, artifact: Artifact) -> None:
    for method in ("BREW", "X" * 200):
        await raw(address, f"/{artifact.path}", method=method)

    counted = REGISTRY.get_sample_value(
        "penstock_artifact_requests_total", {"method": "other", "code": "405"}
    )
    assert counted
    assert not any(
        sample.labels.get("method") in ("BREW", "X" * 200)
        for metric in REGISTRY.collect()
        for sample in metric.samples
    )


@pytest.mark.parametrize("asking", ["index.yaml", "latest.tar.gz"])
async def test_those_who_ask_strangers_for_tenants_get_nothing(
    address: str, artifact: Artifact, asking: str
) -> None:
    owner = artifact.path.rpartition("/")[0]

    async with Http() as http:
        with pytest.raises(AuthError, match="HTTP 403"):
            async with http.request(
                "GET",
                f"http://{address}/{owner}/{asking}",
                endpoint=Endpoint(plain_http=True),
                timeout=10,
            ):
                pass
