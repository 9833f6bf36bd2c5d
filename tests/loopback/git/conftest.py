"""Git servers on loopback, and clients whose workers run in this process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trustme

from tests.fakes.gitserver import GitServer
from toolkit.remote.git import worker
from toolkit.remote.git.git import GitAuth, GitClient


class InProcess:
    """Runs a worker's operations in a thread: what a pool does, without the process."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        work: Callable[[bytes], bytes] = {
            "resolve": worker.resolve,
            "checkout": worker.checkout,
            "commit": worker.commit,
            "land": worker.land,
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


@pytest.fixture
def own_certificate(authority: trustme.CA, server_tls: ssl.SSLContext, ca: bytes) -> GitAuth:
    """Return a certificate to show, which servers with ``server_tls`` demand from now on."""
    server_tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_tls)
    own = authority.issue_cert("ada@example.org")
    return GitAuth(
        ca=ca,
        client_cert=own.cert_chain_pems[0].bytes(),
        client_key=own.private_key_pem.bytes(),
    )
