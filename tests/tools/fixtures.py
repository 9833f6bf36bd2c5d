"""Fixtures of the whole suite that need no cluster: programs, servers, the engine, gpg's keys.

Pytest loads them as a plugin, so that no test module imports another's. A test with a fixture
``<name>_program`` waits for that program (see ``preparing``).
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from release import building, interpreter
from release.errors import UnavailableError
from tests.fakes import objectservers
from tests.fakes.objectservers import AzureServer, GcsServer, S3Server, Server
from tests.fakes.opening import Opening, opening
from tests.fakes.serving import Serve, serving
from tests.testdata.secretkeys import generate as secretkeys
from tests.testdata.secretkeys.generate import KeyPair
from tests.tools import helmcli, programs, workers
from tests.tools.azurite import install
from tests.tools.helmcli import Helm
from toolkit.expressions.evaluator import Evaluator
from toolkit.native.pool import WorkerPool
from toolkit.remote.objectstore.objectstore import Place

_CONFORMANCE = Path(__file__).parents[1] / "conformance"


@pytest.fixture(scope="session")
def evaluates() -> Iterator[Evaluator]:
    """Return an evaluator of expressions, with one worker; no test may have it killed."""
    with workers.engine(reads=()) as pool:
        yield Evaluator(pool)


@pytest.fixture(scope="session")
def age_keygen_program() -> Path:
    """Return the program that makes age identities."""
    return programs.path("age-keygen")


@pytest.fixture(scope="session")
def cosign_program() -> Path:
    """Return the real cosign."""
    return programs.path("cosign")


@pytest.fixture(scope="session")
def fake_gcs_server_program() -> Path:
    """Return the server that stands in for Google's storage."""
    return programs.path("fake-gcs-server")


@pytest.fixture(scope="session")
def flux_program() -> Path:
    """Return Flux's command."""
    return programs.path("flux")


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """Return the real Helm."""
    return programs.path("helm")


@pytest.fixture(scope="session")
def built_image() -> building.Image:
    """Build the image of this checkout, which takes half a minute.

    Debian's registries offer the newest versions alone. A machine that has not downloaded what is
    locked before another version came cannot build it.
    """
    try:
        return building.build(interpreter.of_this_machine())
    except UnavailableError as error:
        pytest.skip(f"no image can be built: {error}")


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    """Run Helm with a home of its own and return what it prints."""
    return helmcli.at(helm_program, tmp_path / "helm-home")


@pytest.fixture(scope="session")
def notation_sign_program() -> Path:
    """Return the signer that is made of the Notary Project's SDK."""
    return programs.path("notation-sign")


@pytest.fixture(scope="session")
def registry_program() -> Path:
    """Return the reference registry."""
    return programs.path("registry")


@pytest.fixture(scope="session")
def sops_program() -> Path:
    """Return the real sops."""
    return programs.path("sops")


@pytest.fixture(scope="session")
def nats_server_program() -> Path:
    """Return the real NATS server."""
    return programs.path("nats-server")


@pytest.fixture(scope="session")
def versitygw_program() -> Path:
    """Return the server that stands in for S3."""
    return programs.path("versitygw")


@pytest.fixture(scope="session")
def azurite() -> list[str]:
    """Return the command of the server that stands in for Azure's storage."""
    return install.command()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return a function that serves an application and returns its host and port."""
    async with AsyncExitStack() as stack:

        async def start(application: web.Application) -> str:
            return f"127.0.0.1:{await stack.enter_async_context(serving(application))}"

        yield start


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def s3(
    versitygw_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[S3Server]:
    """Run a server of S3."""
    root = tmp_path_factory.mktemp("s3") / "root"
    root.mkdir()
    async with objectservers.s3(versitygw_program, root) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gcs(
    fake_gcs_server_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GcsServer]:
    """Run a server of Google's storage."""
    root = tmp_path_factory.mktemp("gcs")
    async with objectservers.gcs(fake_gcs_server_program, root) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def azure(
    azurite: list[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AzureServer]:
    """Run a server of Azure's storage: its start alone takes four seconds of a processor."""
    async with objectservers.azure(azurite, tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture(params=["s3", "gcs", "azure"])
def object_server(request: pytest.FixtureRequest) -> Server:
    """Run a test against S3, Google and Azure in turn."""
    running: Server = request.getfixturevalue(request.param)
    return running


@pytest.fixture
async def place(object_server: Server) -> Place:
    """Make a bucket for one test, on each of the servers."""
    return await object_server.place()


@pytest.fixture(scope="session")
def engine_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """Run a worker that has the engine, and reads what tests wrote and the golden cases."""
    with workers.engine(reads=(tmp_path_factory.getbasetemp(), _CONFORMANCE)) as running:
        yield running


@pytest.fixture(scope="session")
def pairs() -> Iterator[Mapping[str, KeyPair]]:
    """Make a key of gpg of each kind."""
    with secretkeys.key_pairs() as made:
        yield made


@pytest.fixture(scope="module")
def opener() -> Iterator[Opening]:
    """Run the workers that open data keys."""
    with opening() as running:
        yield running
