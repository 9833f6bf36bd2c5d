"""Each test of this directory that takes ``server`` runs against S3, Google and Azure."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes import objectservers
from tests.fakes.objectservers import AzureServer, GcsServer, S3Server, Server
from tests.tools import programs
from tests.tools.azurite import install
from toolkit.remote.objectstore.objectstore import ObjectStore, Place


@pytest.fixture(scope="session")
def versitygw_program() -> Path:
    return programs.path("versitygw")


@pytest.fixture(scope="session")
def fake_gcs_server_program() -> Path:
    return programs.path("fake-gcs-server")


@pytest.fixture(scope="session")
def azurite() -> list[str]:
    """Return Azurite's command."""
    return install.command()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def s3(
    versitygw_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[S3Server]:
    root = tmp_path_factory.mktemp("s3") / "root"
    root.mkdir()
    async with objectservers.s3(versitygw_program, root) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gcs(
    fake_gcs_server_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GcsServer]:
    async with objectservers.gcs(
        fake_gcs_server_program, tmp_path_factory.mktemp("gcs")
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def azure(
    azurite: list[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AzureServer]:
    async with objectservers.azure(azurite, tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture(params=["s3", "gcs", "azure"])
def server(request: pytest.FixtureRequest) -> Server:
    running: Server = request.getfixturevalue(request.param)
    return running


@pytest.fixture
async def place(server: Server) -> Place:
    """Make a bucket for one test."""
    return await server.place()


@pytest.fixture
async def store(place: Place) -> AsyncIterator[ObjectStore]:
    async with ObjectStore(place, timeout=30) as opened:
        yield opened
