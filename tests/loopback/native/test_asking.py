"""Code that takes over a worker that runs Helm gets no record but its release's."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from toolkit.helm import actions, gates
from toolkit.helm.exchanges import Exchanges
from toolkit.native import build
from toolkit.native.pool import WorkerDiedError, WorkerPool

RECORDS = "/api/v1/namespaces/team/secrets"


class Server:
    """An API server that has every record."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[gates.Response]:
        del method, headers, body
        self.asked.append(target)
        yield 200, {}, self._body()

    async def _body(self) -> AsyncIterator[bytes]:
        yield b"{}"


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    build.build()
    kind = replace(actions.kind(), module="tests.loopback.native.probes.helm")
    started = WorkerPool(kind, size=1)
    yield started
    await started.close()


async def _asks(pool: WorkerPool, server: Server, target: str) -> bytes:
    gate = gates.Gate(client=server, allows=gates.records(namespace="team", release="app"))
    answering = Exchanges({"storage": gate})
    return await pool.call("ask", target.encode(), timeout=60, answering=answering, flow="team")


@pytest.mark.parametrize(
    "target",
    [
        f"{RECORDS}/sh.helm.release.v1.other.v1",
        f"{RECORDS}/../secrets/token",
        "/api/v1/namespaces/other/secrets/sh.helm.release.v1.app.v1",
        f"{RECORDS}?labelSelector=owner%3Dhelm",
    ],
)
async def test_worker_that_asks_for_more_is_ended(pool: WorkerPool, target: str) -> None:
    server = Server()

    with pytest.raises(WorkerDiedError, match="which no action may request"):
        await _asks(pool, server, target)

    assert server.asked == []
    own = f"{RECORDS}/sh.helm.release.v1.app.v1"
    assert await _asks(pool, server, own)
    assert server.asked == [own]
