"""An API server that starts while we hang is held up by nothing, and finds us when we are back.

It runs on a control plane of its own, because it stops the API server.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from controlplane import plane
from controlplane.plane import ControlPlane
from tests.contract.apiserver.window import Window

# A look at us every 30 s is the API server's.
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Run a control plane for this module alone."""
    with plane.start("pytest-outage", alternatives=8) as running:
        yield running


async def test_an_api_server_starts_while_we_answer_nothing(fresh_window: Window) -> None:
    window = fresh_window
    replica = await window.start()
    window.shop.put(window.namespace, "ball")
    await window.available()
    await replica.stop()
    window.replicas.clear()
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        try:
            with contextlib.suppress(ConnectionError):
                await reader.read()
        finally:  # also if the test ends before those who ask give up
            writer.close()

    silent = await asyncio.start_server(hang, "127.0.0.1", window.port)
    async with silent:
        await asyncio.to_thread(window.control_plane.stop_component, "kube-apiserver")
        asked.clear()
        # Returns when it is ready, or fails.
        await asyncio.to_thread(window.control_plane.start_component, "kube-apiserver")

        assert window.namespace in await window.kubectl("get", "namespaces", "-o", "name")
        await window.refused("get", "toys.gitops.penstock.dev")
        async with asyncio.timeout(60):
            await asked.wait()
        silent.close()

    await window.start()
    await window.available()

    async def served() -> bool:
        return "ball" in await window.answer("get", "toys.gitops.penstock.dev")

    await window.until(served)
