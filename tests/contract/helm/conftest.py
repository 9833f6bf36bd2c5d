"""Actions of Helm in a real worker, on the real API server, in the test's namespace."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.helm.world import World
from tests.tools.administrator import Administrator
from toolkit.helm import actions
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.native import build
from toolkit.native.pool import WorkerPool


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def pool(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerPool]:
    """Run one worker for all tests."""
    build.build()
    started = actions.start(size=2, reads=(tmp_path_factory.getbasetemp(),))
    yield started
    await started.close()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def api(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Connect as administrator."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened


@pytest.fixture
def world(
    pool: WorkerPool, api: Client, namespace: str, administrator: Administrator, tmp_path: Path
) -> World:
    """Give a release named ``app`` in the test's namespace, and what is around it."""
    return World(
        pool=pool, api=api, namespace=namespace, administrator=administrator, directory=tmp_path
    )
