"""Real object stores on loopback: versitygw (S3), fake-gcs-server (Google), Azurite (Azure)."""

import asyncio
import json
import os
import secrets
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tests.fakes.serving import free_port
from toolkit.remote.objectstore.dialect import Ask
from toolkit.remote.objectstore.objectstore import (
    AzureKey,
    BearerToken,
    Credentials,
    ObjectStore,
    Place,
    S3Keys,
)

ACCESS_KEY: Final = "penstock"
SECRET_KEY: Final = "a secret of the tests"
ACCOUNT: Final = "devstoreaccount1"
ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The well-known key of Azure's emulators."""


class Server(Protocol):
    """A server that can make buckets."""

    async def place(self) -> Place:
        """Make a bucket and return it, with credentials that may do everything."""


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """Where versitygw listens."""

    endpoint: str

    async def place(self) -> Place:
        """Make a bucket."""
        place = _place("generic", self.endpoint, self.keys)
        async with ObjectStore(place) as store:
            await store._ask(Ask(method="PUT", path=f"/{place.bucket}"), store._subject("make it"))
        return place

    @property
    def keys(self) -> S3Keys:
        return S3Keys(access_key=ACCESS_KEY, secret_key=SECRET_KEY)


@dataclass(frozen=True, kw_only=True)
class GcsServer:
    """Where fake-gcs-server listens; it lets everybody in."""

    endpoint: str

    async def place(self) -> Place:
        """Make a bucket."""
        place = _place("gcp", self.endpoint, BearerToken(token="anything"))
        request = urllib.request.Request(
            f"http://{self.endpoint}/storage/v1/b?project=tests",
            data=json.dumps({"name": place.bucket}).encode(),
            headers={"Content-Type": "application/json"},
        )
        await asyncio.to_thread(_ask, request)
        return place


@dataclass(frozen=True, kw_only=True)
class AzureServer:
    """Where Azurite's blob service listens."""

    endpoint: str

    async def place(self) -> Place:
        """Make a container."""
        place = _place("azure", f"http://{self.endpoint}/{ACCOUNT}", AzureKey(key=ACCOUNT_KEY))
        ask = Ask(method="PUT", path=f"/{ACCOUNT}/{place.bucket}", query={"restype": "container"})
        async with ObjectStore(place) as store:
            await store._ask(ask, store._subject("make it"))
        return place


@asynccontextmanager
async def s3(program: Path, root: Path) -> AsyncIterator[S3Server]:
    """Run versitygw over the directory ``root``."""
    port = free_port()
    environment = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    command = (
        str(program),
        "--quiet",
        "--keep-alive",
        "--port",
        f"127.0.0.1:{port}",
        "posix",
        str(root),
    )
    async with running(command, port, root.parent, environment):
        yield S3Server(endpoint=f"127.0.0.1:{port}")


@asynccontextmanager
async def gcs(program: Path, root: Path) -> AsyncIterator[GcsServer]:
    """Run fake-gcs-server, which keeps everything in memory."""
    port = free_port()
    place = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port))
    command = (str(program), "-backend", "memory", *place, "-public-host", f"127.0.0.1:{port}")
    async with running(command, port, root, {}):
        yield GcsServer(endpoint=f"127.0.0.1:{port}")


@asynccontextmanager
async def azure(command: Sequence[str], root: Path) -> AsyncIterator[AzureServer]:
    """Run Azurite, which keeps everything in memory."""
    port = free_port()
    options = ("--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry")
    async with running((*command, "--blobPort", str(port), *options), port, root, {}):
        yield AzureServer(endpoint=f"127.0.0.1:{port}")


def _place(provider: str, endpoint: str, credentials: Credentials) -> Place:
    return Place(
        provider=provider,  # type: ignore[arg-type]  # one of the literals, above
        endpoint=endpoint,
        bucket=f"tests-{secrets.token_hex(4)}",
        plain_http=True,
        credentials=credentials,
    )


def _ask(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # loopback
        answer.read()


@asynccontextmanager
async def running(
    command: Sequence[str], port: int, directory: Path, environment: dict[str, str]
) -> AsyncIterator[None]:
    """Run a server that listens on a port of loopback, until the block ends."""
    log = directory / f"{Path(command[0]).name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": str(directory), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        await _listens(process, port, log)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listens(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    async with asyncio.timeout(60):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return
    output = await asyncio.to_thread(log.read_text)
    raise AssertionError(f"the server ended: {output[-2000:]}")
