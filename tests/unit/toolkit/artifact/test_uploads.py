"""Uploads at the door: what is refused before it is stored, and how the sender is told."""

import asyncio
import contextlib
import gzip
import io
import re
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.fulldisk import files_at_most
from tests.fakes.reviews import Reviews
from tests.fakes.serving import Serve
from tests.tools import waiting
from toolkit.artifact import server
from toolkit.artifact.access import Access
from toolkit.artifact.intake import Pace
from toolkit.artifact.quota import UploadLimits
from toolkit.artifact.storage import Storage
from toolkit.artifact.uploads import Uploads
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json

PATH = "/externalartifact/apps/rows/rows.tar.gz"
SMALL = UploadLimits(artifact_bytes=1 << 20, namespace_bytes=3 << 20)
HEAD = (f"PUT {PATH} HTTP/1.1", "Host: a", "Authorization: Bearer abc")
EXPECT = "Expect: 100-continue"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def tarball(name: str = "rows.yaml") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = 5
        tar.addfile(info, io.BytesIO(b"a: 1\n"))
    return out.getvalue()


ROWS = tarball()


@dataclass
class Objects:
    """An API server with one object at most."""

    metadata: Json | None = field(default_factory=dict)

    async def get(self, gvk: GroupVersionKind, name: str, namespace: str = "") -> Json:
        if self.metadata is None:
            raise NotFoundError(f"{gvk.kind} '{namespace}/{name}' not found")
        return {"metadata": {"name": name, "namespace": namespace, **self.metadata}}


@dataclass(kw_only=True)
class Door:
    """The server, and senders without manners."""

    address: str
    storage: Storage
    objects: Objects

    async def put(self, body: Any = ROWS, *, path: str = PATH, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer abc"}) as session,
            session.put(f"http://{self.address}{path}", data=body, headers=named) as response,
        ):
            return response.status, (await response.json())["error"]

    async def said(self, *lines: str, body: bytes = b"", later: bytes = b"") -> bytes:
        """Send a request as it stands, ``later`` when it is asked for, and return the answer."""
        reader, writer = await self.begun(*lines)
        writer.write(body)
        async with asyncio.timeout(20):
            if later:
                await reader.readuntil(CONTINUE)
                writer.write(later)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"Content-Length: ([0-9]+)", answer)
            answer += await reader.readexactly(int(length[1])) if length else b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return answer

    async def begun(self, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write("\r\n".join([*HEAD, *lines, "", ""]).encode())
        return reader, writer

    async def stored(self) -> bool:
        return await self.storage.usage("ExternalArtifact") != {}


async def opened(serve: Serve, tmp_path: Path, pace: Pace) -> Door:
    storage, objects = Storage(tmp_path / "root", advertised="artifacts.test"), Objects()
    uploads = Uploads(
        storage,
        access=Access(Reviews()),
        objects=objects,
        scratch=tmp_path / "scratch",
        limits=SMALL,
        pace=pace,
    )
    address = await serve(server.application(storage, uploads=uploads))
    return Door(address=address, storage=storage, objects=objects)


@pytest.fixture
async def door(serve: Serve, tmp_path: Path) -> Door:
    return await opened(serve, tmp_path, Pace())


@pytest.mark.parametrize("metadata", [None, {"deletionTimestamp": "2026-01-02T03:04:05Z"}])
async def test_an_object_that_is_not_there_or_going_gets_no_artifact(
    door: Door, metadata: Json | None
) -> None:
    door.objects.metadata = metadata

    status, error = await door.put()

    assert (status, "create it before its artifact" in error) == (409, True)
    assert not await door.stored()


async def test_a_file_that_is_no_tarball_by_name_is_refused(door: Door) -> None:
    status, error = await door.put(path=PATH.replace(".tar.gz", ".yaml"))

    assert (status, "is a gzipped tarball" in error) == (400, True)


async def test_a_packed_body_is_refused(door: Door) -> None:
    status, error = await door.put(gzip.compress(ROWS), Content_Encoding="gzip")

    assert (status, "without Content-Encoding" in error) == (400, True)


@pytest.mark.parametrize(
    "encodings", [("identity", "gzip"), ("gzip", "identity"), ("identity", "")]
)
async def test_a_body_that_one_of_two_headers_calls_packed_is_refused(
    door: Door, encodings: tuple[str, str]
) -> None:
    # the parser unpacks by the last of them
    said = (f"Content-Encoding: {each}" for each in encodings)
    answer = await door.said(*said, "Content-Length: 8", EXPECT)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"without Content-Encoding" in answer


@pytest.mark.parametrize("revision", ["a b", "a\tb", "x" * 513])
async def test_a_revision_that_is_none_is_refused(door: Door, revision: str) -> None:
    status, error = await door.put(X_Artifact_Revision=revision)

    assert (status, "512 printable characters" in error) == (400, True)


async def test_a_wrong_digest_is_refused(door: Door) -> None:
    status, error = await door.put(X_Artifact_Digest=f"sha256:{'0' * 64}")

    assert (status, f"instead of sha256:{'0' * 64}" in error) == (400, True)
    assert not await door.stored()


@pytest.mark.parametrize("body", [b"PK\x03\x04", tarball("../rows.yaml")], ids=["zip", "out"])
async def test_what_consumers_would_refuse_is_refused(door: Door, body: bytes) -> None:
    status, error = await door.put(body)

    assert (status, error.startswith("consumers could not unpack it")) == (422, True)
    assert not await door.stored()


async def test_too_large_a_body_is_refused_before_it_is_sent(door: Door) -> None:
    answer = await door.said(f"Content-Length: {(1 << 20) + 1}", EXPECT)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 1 MiB" in answer


async def test_too_large_a_body_is_refused_while_it_comes(door: Door) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield bytes(1 << 16)

    status, error = await door.put(pieces())

    assert (status, "larger than 1 MiB" in error) == (413, True)


async def test_a_dawdler_is_cut_off(serve: Serve, tmp_path: Path) -> None:
    door = await opened(serve, tmp_path, Pace(grace_seconds=0.2, bytes_per_second=1 << 20))

    answer = await door.said("Content-Length: 99", body=b"x")

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"bytes the upload became too slow; send at least 1024 KiB a second" in answer


async def test_a_disk_without_room_is_told(door: Door) -> None:
    with files_at_most(64 << 10):
        status, error = await door.put(bytes(200 << 10))

    assert (status, error) == (503, "cannot keep the upload: File too large")
    assert not await door.stored()


async def test_a_connection_that_breaks_is_not_a_fault_of_the_disk(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader, writer = await door.begun("Content-Length: 99", EXPECT)
    await reader.readuntil(CONTINUE)
    writer.transport.abort()
    await waiting.until(lambda: "upload" in caplog.text or "Error" in caplog.text)

    assert "upload broke off" in caplog.text
    assert "upload failed" not in caplog.text


async def test_an_expectation_that_nobody_knows_is_refused(door: Door) -> None:
    answer = await door.said("Expect: miracles", "Content-Length: 0", "Connection: close")

    assert answer.startswith(b"HTTP/1.1 417 ")
