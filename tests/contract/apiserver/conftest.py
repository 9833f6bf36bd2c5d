"""The aggregated API server behind a real API server: see ``window.py``.

All fixtures and tests of this folder share one event loop per module.

- ``window``: the module's, where a process serves toys; each test has a namespace of its own.
- ``fresh_window``: the test's own; no process runs yet.
"""

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.apiserver.window import Window, make_namespace, opened
from tests.tools import programs
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind

_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


@pytest.fixture(scope="session")
def informer_program() -> Path:
    """Return the program that follows a resource."""
    return programs.path("informer")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Keep the connections of an administrator for a module."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(control_plane: ControlPlane, admin: Client) -> AsyncIterator[str]:
    """Make a namespace for one test; on a plane of ours it stays, and ends with the plane."""
    name = await make_namespace(admin, f"test-{secrets.token_hex(4)}")
    yield name
    if control_plane.supervision is None:
        await admin.delete(_NAMESPACE, name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_window(
    control_plane: ControlPlane, admin: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Window]:
    """Install a window for a module; no process runs yet."""
    home = await make_namespace(admin, f"window-{secrets.token_hex(4)}")
    directory = tmp_path_factory.mktemp("window")
    async with opened(control_plane, admin, home, directory) as window:
        yield window
    if control_plane.supervision is None:
        await admin.delete(_NAMESPACE, home)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def toy_window(module_window: Window) -> Window:
    """Serve toys for a module."""
    await module_window.start()
    return module_window


@pytest_asyncio.fixture(loop_scope="module")
async def window(toy_window: Window, namespace: str) -> Window:
    """Give the module's window, in the test's own namespace."""
    return replace(toy_window, namespace=namespace)


@pytest_asyncio.fixture(loop_scope="module")
async def fresh_window(
    control_plane: ControlPlane, admin: Client, namespace: str, tmp_path: Path
) -> AsyncIterator[Window]:
    """Install a window for one test; no process runs yet."""
    async with opened(control_plane, admin, namespace, tmp_path) as window:
        yield window
