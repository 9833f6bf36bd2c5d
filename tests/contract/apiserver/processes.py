"""The program as it is installed: a process with all resources."""

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

from apiserver.registration import NAME
from tests.contract.apiserver.window import AS_ROOT, BASE, Reply, Window
from tests.fakes.serving import free_port

ROOT = Path(__file__).parents[3]


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
async def running(
    window: Window, number: int, *flags: str, port: int = 0
) -> AsyncIterator[Process]:
    """Run a process until the end."""
    port, temporary = port or free_port(), window.directory / f"process-{number}"
    temporary.mkdir()
    kubeconfig = await window.kubeconfig(f"{NAME}-{number}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apiserver", f"--runtime-namespace={window.home}"),
        *(f"--secure-addr=127.0.0.1:{port}", f"--apiservice-port={port}"),
        *("--metrics-addr=0", "--health-addr=0", "--shutdown-delay-duration=0s", *flags),
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
