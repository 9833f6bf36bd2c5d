"""Two processes with all resources, and a crowd of readers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from apiserver.resuming import MARGIN
from tests.contract.apiserver.processes import Process, running
from tests.contract.apiserver.window import AS_ROOT, BASE, Window
from toolkit.objects import GroupVersionKind, Json

# A process takes seconds to start, ten to trust its history, and a thousand readers their time;
# tests/unit/apiserver shows the same with hundreds and with other clocks.
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
READERS = 1000
MOST = 200 << 20
"""Bytes that a thousand readers may cost; the process has 1 GiB."""


@pytest_asyncio.fixture(loop_scope="module")
async def window(fresh_window: Window, definitions: None) -> AsyncIterator[Window]:
    del definitions
    yield fresh_window
    await fresh_window.sweep(KUSTOMIZATION)


@pytest_asyncio.fixture(loop_scope="module")
async def first(window: Window) -> AsyncIterator[Process]:
    async with running(window, 1) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module")
async def second(window: Window) -> AsyncIterator[Process]:
    async with running(window, 2) as process:
        yield process


async def made(window: Window, *names: str) -> None:
    """Make Kustomizations, which have an inventory each."""
    for name in names:
        obj: Json = {
            "apiVersion": KUSTOMIZATION.api_version,
            "kind": KUSTOMIZATION.kind,
            "metadata": {"name": name, "namespace": window.namespace},
            "spec": {
                "interval": "1h",
                "prune": True,
                "sourceRef": {"kind": "GitRepository", "name": "web"},
            },
        }
        await window.admin.apply(obj, manager="test")


async def known(window: Window, process: Process, names: list[str]) -> None:
    async def all_of_them() -> bool:
        return await process.names() == names

    await window.until(all_of_them)


async def test_what_one_process_has_said_holds_at_the_other(
    window: Window, first: Process, second: Process
) -> None:
    names = [f"app-{number:02}" for number in range(12)]
    # A process that has just begun says 410 to what may be older than itself.
    await asyncio.sleep(MARGIN + 1)
    await made(window, *names)
    for process in (first, second):
        await known(window, process, names)
    path = f"{BASE}/namespaces/{window.namespace}/inventories"

    seen: list[str] = []
    token, asked = "", 0
    while token or not asked:  # page by page, from one to the other and back
        reply = await (first, second)[asked % 2].ask(f"{path}?limit=5&continue={token}")
        if reply.status == 410:  # it cannot say that nothing changed, but how to go on
            reply = await second.ask(
                f"{path}?limit=5&continue={reply.json['metadata']['continue']}"
            )
        assert reply.status == 200, reply.body
        seen += [each["metadata"]["name"] for each in reply.json["items"]]
        token, asked = reply.json["metadata"].get("continue", ""), asked + 1
    version = (await first.ask(path)).json["metadata"]["resourceVersion"]
    await made(window, "late")
    told = asyncio.create_task(event(second, f"{path}?watch=1&resourceVersion={version}", "late"))

    assert (seen, asked) == (names, 3)
    async with asyncio.timeout(30):
        heard = await told
    assert heard["type"] == "ADDED"
    # Versions of both are comparable (KEP-5504), and one waits for what the other has seen.
    later = heard["object"]["metadata"]["resourceVersion"]
    assert int(later) > int(version)
    reply = await first.ask(f"{path}?resourceVersion={later}&resourceVersionMatch=NotOlderThan")
    assert "late" in [each["metadata"]["name"] for each in reply.json["items"]]


async def event(process: Process, path: str, name: str) -> Json:
    """Return the first event of a watch that is about one object."""
    tls = process.window._tls(process.window.front_proxy())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
        session.get(f"https://127.0.0.1:{process.window.port}{path}", headers=AS_ROOT) as response,
    ):
        assert response.status == 200
        async for line in response.content:
            found: Json = msgspec.json.decode(line)
            assert found["type"] != "ERROR", found["object"]["message"]
            if found["object"]["metadata"].get("name") == name:
                return found
    raise AssertionError("the watch ended")


async def test_a_thousand_readers_are_told_and_cost_little(window: Window, first: Process) -> None:
    await made(window, "app")
    await known(window, first, ["app"])
    path = f"{BASE}/namespaces/{window.namespace}/inventories?watch=1"
    version = (await first.ask(path.partition("?")[0])).json["metadata"]["resourceVersion"]
    url = f"https://127.0.0.1:{first.window.port}{path}&resourceVersion={version}"
    before = first.memory()
    connector = aiohttp.TCPConnector(ssl=first.window._tls(window.front_proxy()), limit=0)
    opening = asyncio.Semaphore(50)

    async with (
        aiohttp.ClientSession(connector=connector, read_bufsize=4096) as session,
        contextlib.AsyncExitStack() as stack,
    ):

        async def opened() -> aiohttp.ClientResponse:
            async with opening:
                return await stack.enter_async_context(session.get(url, headers=AS_ROOT))

        readers = await asyncio.gather(*(opened() for _ in range(READERS)))
        cost = first.memory() - before
        await made(window, "late")
        lines = await asyncio.gather(*(reader.content.readline() for reader in readers))

        assert {reader.status for reader in readers} == {200}
        assert {msgspec.json.decode(line)["object"]["metadata"]["name"] for line in lines} == {
            "late"
        }
        # Others are answered meanwhile.
        assert await first.names() == ["app", "late"]
        assert cost < MOST
