"""An artifact store behind its server, on loopback."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from crds.meta import Artifact
from tests.fakes.bucketreplicas import stored
from tests.fakes.serving import serving
from tests.loopback.objectstore.conftest import (
    azure,
    azurite,
    fake_gcs_server_program,
    gcs,
    place,
    s3,
    server,
    versitygw_program,
)
from toolkit.artifact import server as artifact_server
from toolkit.artifact.storage import Storage

# Real S3, Google and Azure servers: ``place`` is a bucket on each in turn.
__all__ = [
    "azure",
    "azurite",
    "fake_gcs_server_program",
    "gcs",
    "place",
    "s3",
    "server",
    "versitygw_program",
]

Serve = Callable[[web.Application], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return a function that serves an application and returns its host and port."""
    async with AsyncExitStack() as stack:

        async def start(application: web.Application) -> str:
            return f"127.0.0.1:{await stack.enter_async_context(serving(application))}"

        yield start


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "app").mkdir(parents=True)
    (tree / "app" / "a.yaml").write_text("a: 1\n")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    return tree


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "root", advertised="artifacts.test")


@pytest.fixture
async def artifact(storage: Storage, tree: Path) -> Artifact:
    return await stored(storage, tree)


@pytest.fixture
async def address(storage: Storage, artifact: Artifact, serve: Serve) -> str:
    del artifact
    return await serve(artifact_server.application(storage))


@asynccontextmanager
async def closed_port() -> AsyncIterator[str]:
    """Give an address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"
