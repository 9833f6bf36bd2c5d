"""Who vouches for servers of Git, OCI and HTTP on loopback."""

import ssl

import pytest
import trustme

from tests.fakes.serving import certified
from toolkit.native.pool import WorkerPool


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    return certified(authority, "localhost", "registry.example.com")


@pytest.fixture
def pool(engine_pool: WorkerPool) -> WorkerPool:
    return engine_pool
