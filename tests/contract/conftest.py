"""What tests share: our kinds on the API server, and who vouches for servers of Git and OCI."""

import ssl

import pytest
import trustme

from controlplane.plane import ControlPlane
from tests.fakes.serving import certified
from tests.tools.definitions import install


@pytest.fixture(scope="session")
def definitions(control_plane: ControlPlane) -> None:
    """Install our kinds once for the run; nobody else writes them."""
    install(control_plane)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    return certified(authority, "localhost", "registry.example.com")
