"""An API server that starts while we hang is held up by nothing, and finds us when we are back."""

import asyncio
import contextlib

import pytest

from tests.contract.apiserver.conftest import Window


async def test_an_api_server_starts_while_we_answer_nothing(window: Window) -> None:
    plane = window.control_plane
    if plane.supervision is None:
        pytest.skip("the API server of a cluster that is not ours is not restarted")
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
        await asyncio.to_thread(plane.stop_component, "kube-apiserver")
        asked.clear()
        # Returns when it is ready, or fails.
        await asyncio.to_thread(plane.start_component, "kube-apiserver")

        assert window.namespace in await window.kubectl("get", "namespaces", "-o", "name")
        assert "failed" in await window.kubectl("get", "toys.gitops.penstock.dev")
        async with asyncio.timeout(60):
            await asked.wait()
        silent.close()

    await window.start()
    await window.available()

    async def served() -> bool:
        return "ball" in await window.kubectl("get", "toys.gitops.penstock.dev")

    async with asyncio.timeout(90):
        while not await served():  # noqa: ASYNC110 - a look every 30 s is upstream's
            await asyncio.sleep(0.5)
