"""Git servers on loopback, and clients whose workers run in this process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.fakes.gitserver import GitServer
from toolkit.remote.git import worker
from toolkit.remote.git.git import GitClient


class InProcess:
    """Runs a worker's operations in a thread: what a pool does, without the process."""

    async def call(self, op: str, payload: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109  # the pool's signature
        work: Callable[[bytes], bytes] = {
            "resolve": worker.resolve,
            "checkout": worker.checkout,
        }[op]
        async with asyncio.timeout(timeout):
            return await asyncio.to_thread(work, payload)


@pytest.fixture
def client() -> GitClient:
    return GitClient(InProcess())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with GitServer(tmp_path / "server") as running:
        yield running


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a directory for a checkout that does not exist yet."""
    return tmp_path / "out"


@pytest.fixture
async def tls_server(tmp_path: Path, server_tls: ssl.SSLContext) -> AsyncIterator[GitServer]:
    async with GitServer(tmp_path / "tls", tls=server_tls) as running:
        yield running
