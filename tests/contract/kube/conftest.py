"""Clients of the control plane that the whole run shares."""

from collections.abc import AsyncIterator

import pytest_asyncio

from controlplane.plane import ControlPlane
from toolkit.kube import config
from toolkit.kube.client import Client


@pytest_asyncio.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Give an administrator's client."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened
