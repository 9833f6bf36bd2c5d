"""Clients of the control plane that the whole run shares."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from toolkit.kube import config
from toolkit.kube.client import Client

Until = Callable[[Callable[[], object]], Awaitable[None]]


@pytest_asyncio.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Give an administrator's client."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened


@pytest.fixture
def until() -> Until:
    """Wait for a condition, half a minute at most."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - the condition is somebody else's state
                await asyncio.sleep(0.02)

    return wait
