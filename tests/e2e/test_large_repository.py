"""A repository of 5,000 files and 200 MB passes through in little memory, and nobody waits for it.

Memory is asserted on. How long the event loop was kept busy depends on who else uses the machine,
so it is reported: ``pytest --log-cli-level=INFO tests/e2e/test_large_repository.py``. That it goes
on while artifacts are packed and read is proved in ``tests/unit/toolkit/artifact/test_aside.py``.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.conftest import (
    GIT_REPOSITORY,
    Space,
    config_map,
    revision_of,
)
from tests.e2e.sources import artifact_of, edit
from tests.fakes.gitrepository import Repository
from tests.tools.peaks import children

pytestmark = pytest.mark.asyncio(loop_scope="session")

logger = logging.getLogger(__name__)

FILES = 5_000
FILE_BYTES = 40_000
DIRECTORIES = 10
MAY_RISE = 100 << 20


def fill(repository: Repository) -> str:
    """Commit many files that do not compress, in parts, so that this takes no memory either."""
    repository.git("config", "core.compression", "0")
    repository.git("config", "pack.window", "0")  # spare the server to look for what is alike
    each = FILES // DIRECTORIES
    commit = repository.commit({"deploy/a.yaml": config_map("a", v="1")})
    for directory in range(DIRECTORIES):
        names = (f"data/{directory:02}/{number:03}.bin" for number in range(each))
        commit = repository.commit({name: os.urandom(FILE_BYTES) for name in names})
    return commit


@pytest.mark.slow
async def test_large_repository_needs_little_memory(space: Space) -> None:
    small, large = space.repository("small"), space.repository("large")
    small.commit({"deploy/a.yaml": config_map("a", v="1")})
    commit = await asyncio.to_thread(fill, large)
    await space.world.apply(space.source(small), space.kustomization(path="./deploy"))
    await space.ready()  # what every repository needs is loaded now
    pids = space.world.stack.pids()
    fetching, applying = Memory(pids["source-0"]), Memory(pids["kustomize-0"])
    health = space.world.stack.health("source") + "/healthz"
    async with probing(health, fetching.pid) as quiet:
        await asyncio.sleep(2)

    for memory in (fetching, applying):
        memory.start()
    began = time.monotonic()
    async with probing(health, fetching.pid) as busy:
        await edit(space, {"url": large.url, "timeout": "5m"})
        source = await space.world.until(
            GIT_REPOSITORY,
            space.namespace,
            "app",
            lambda obj: commit in revision_of(obj),
            within=120,
        )
        took = time.monotonic() - began
    await space.ready(revision=commit)

    logger.info("fetched and stored in %.1f s", took)
    logger.info("memory: source %s; kustomize %s", fetching, applying)
    logger.info("latency of /healthz, idle: %s", quiet)
    logger.info("latency of /healthz, busy: %s", busy)
    assert artifact_of(source)["size"] > FILES * FILE_BYTES
    assert fetching.risen < MAY_RISE
    assert applying.risen < MAY_RISE


@dataclass
class Probes:
    """Times in seconds: as they were, and without the time in which others had the processor."""

    all: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    def add(self, took: float, own: float) -> None:
        self.all.append(took)
        self.own.append(own)

    def __str__(self) -> str:
        return f"{len(self.all)} probes, {_shown(self.all)}; own {_shown(self.own)}"


def _shown(seconds: list[float]) -> str:
    ordered = sorted(seconds) or [0.0]
    shares = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
    places = ((name, max(int(len(ordered) * share) - 1, 0)) for name, share in shares)
    return " ".join(f"{name} {ordered[place] * 1000:.1f}" for name, place in places) + " ms"


_PROBER = """
import http.client, sys, time
from urllib.parse import urlsplit

url, pid = urlsplit(sys.argv[1]), sys.argv[2]

def waited():
    files = "/proc/thread-self/schedstat", f"/proc/{pid}/task/{pid}/schedstat"
    return sum(int(open(file).read().split()[1]) for file in files) / 1e9

connection = http.client.HTTPConnection(url.hostname, url.port)
while True:
    before, began = waited(), time.perf_counter()
    connection.request("GET", url.path)
    connection.getresponse().read()
    took = time.perf_counter() - began
    print(took, max(took - (waited() - before), 0), flush=True)
    time.sleep(0.005)
"""
"""A process of its own, so that what keeps the test busy is not measured. The second time leaves
out for how long the kernel let others run instead of the two (proc(5), schedstat)."""


@asynccontextmanager
async def probing(url: str, pid: int) -> AsyncIterator[Probes]:
    """Ask for ``url``, which ``pid`` serves, all the time while the block runs."""
    probes = Probes()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", _PROBER, url, str(pid)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None

    async def collect(output: asyncio.StreamReader) -> None:
        async for line in output:
            if line.endswith(b"\n"):  # the last one may be cut off
                took, own = map(float, line.split())
                probes.add(took, own)

    collecting = asyncio.ensure_future(collect(process.stdout))
    try:
        yield probes
    finally:
        process.terminate()
        await process.wait()
        await collecting


@dataclass
class Memory:
    """The resident memory of a process and its children, in bytes."""

    pid: int
    before: int = 0

    def start(self) -> None:
        """Let peaks count from now on (proc(5), clear_refs)."""
        self.before = self._sum("VmRSS:")
        for pid in self._pids():
            with suppress(OSError):  # an idle worker may end at any time
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    @property
    def risen(self) -> int:
        """The sum of the peaks, which is no less than the peak of the sum, above the start."""
        return self._sum("VmHWM:") - self.before

    def __str__(self) -> str:
        count = len(self._pids())
        return f"rose by {self.risen >> 20} from {self.before >> 20} MiB in {count} processes"

    def _sum(self, field_name: str) -> int:
        total = 0
        for pid in self._pids():
            lines: list[str] = []
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(
                int(line.split()[1]) << 10 for line in lines if line.startswith(field_name)
            )
        return total

    def _pids(self) -> list[int]:
        return [self.pid, *children(self.pid)]
