"""An artifact store behind its server, on loopback."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from crds.meta import Artifact
from tests.contract.objectstore.conftest import (
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
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage

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

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")

Serve = Callable[[web.Application], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return a function that serves an application and returns its host and port."""
    runners = []

    async def start(application: web.Application) -> str:
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()


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
    return await storage.store(
        OWNER,
        revision="main@sha1:abc",
        filename="abc.tar.gz",
        tree=tree,
        ignore=Ignore.from_rules(None),
    )


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
