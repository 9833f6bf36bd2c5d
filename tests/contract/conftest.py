"""What tests share: our kinds on the API server."""

import pytest

from controlplane.plane import ControlPlane
from tests.tools.definitions import install


@pytest.fixture(scope="session")
def definitions(control_plane: ControlPlane) -> None:
    """Install our kinds once for the run; nobody else writes them."""
    install(control_plane)
