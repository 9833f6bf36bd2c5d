"""The program as it is installed: two processes with all resources, and a crowd of readers."""

import asyncio
import contextlib
import dataclasses
import os
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest_asyncio

from apiserver.registration import NAME
from apiserver.resuming import MARGIN
from tests.contract.apiserver.conftest import BASE, Reply, Window
from tests.fakes.serving import free_port
from toolkit.objects import Json

ROOT = Path(__file__).parents[3]
AS_ROOT = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]
READERS = 1000
MOST = 200 << 20
"""Bytes that a thousand readers may cost; the process has 1 GiB."""


@dataclass
class Process:
    """One process, asked at its own port."""

    window: Window
    process: asyncio.subprocess.Process
    killed: bool = False

    def kill(self) -> None:
        """End it as a machine that fails does."""
        self.killed = True
        self.process.kill()

    async def ask(self, path: str) -> Reply:
        return await self.window.ask(path, certificate=self.window.front_proxy(), headers=AS_ROOT)

    async def names(self) -> list[str]:
        """Return the inventories that it knows."""
        reply = await self.ask(f"{BASE}/namespaces/{self.window.namespace}/inventories")
        return [each["metadata"]["name"] for each in reply.json["items"]]

    async def ready(self) -> bool:
        """Tell whether it answers."""
        with contextlib.suppress(aiohttp.ClientError, ssl.SSLError):
            return (await self.ask(f"{BASE}/inventories")).status == 200
        return False

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) << 10


@contextlib.asynccontextmanager
async def running(window: Window, number: int, *, port: int = 0) -> AsyncIterator[Process]:
    """Run a process until the end."""
    port, temporary = port or free_port(), window.directory / f"process-{number}"
    temporary.mkdir()
    token = await asyncio.to_thread(window.control_plane.token, window.namespace, NAME)
    kubeconfig = window.control_plane.kubeconfig_for(
        f"{NAME}-{window.namespace}-{number}", token=token
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apiserver", f"--runtime-namespace={window.namespace}"),
        *(f"--secure-addr=127.0.0.1:{port}", f"--apiservice-port={port}"),
        *("--metrics-addr=0", "--health-addr=0", "--shutdown-delay-duration=0s"),
        cwd=ROOT,
        env={"KUBECONFIG": str(kubeconfig), "TMPDIR": str(temporary), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    started = Process(dataclasses.replace(window, port=port), process)
    try:
        await window.until(started.ready)
        yield started
        assert process.returncode is None or started.killed, "it ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.wait_for(process.wait(), 30)


@pytest_asyncio.fixture
async def first(window: Window, definitions: None) -> AsyncIterator[Process]:
    del definitions
    async with running(window, 1) as process:
        yield process


@pytest_asyncio.fixture
async def second(window: Window, definitions: None) -> AsyncIterator[Process]:
    del definitions
    async with running(window, 2) as process:
        yield process


async def made(window: Window, *names: str) -> None:
    """Make Kustomizations, which have an inventory each."""
    for name in names:
        obj: Json = {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
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
