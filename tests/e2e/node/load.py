"""Users at work while the installation is disturbed: they must not notice.

``Load`` is an async context manager. Meanwhile objects are written through the gate, inventories
are read through the aggregated API, and commits follow each other in a repository that a
Kustomization and a HelmRelease apply. What failed and what was lost is kept:

- a write or a read that failed, except those that a test expects (``refusals``);
- an object of the repository, or a pod, that was deleted or replaced.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import yaml

from tests.e2e.node.cluster import (
    TEAM,
    Cluster,
    chart,
    kustomization,
    release,
    source,
    uids,
    until,
    web,
)
from tests.fakes.gitserver import GitServer, Repository
from toolkit.errors import PenstockError
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig

_INVENTORY: Final = GroupVersionKind("gitops.penstock.dev", "v1alpha1", "Inventory")
_CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
_DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_KUSTOMIZATION: Final = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
_RELEASE: Final = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
_NUMBER: Final = "number"
_TOO_LATE: Final = ("service unavailable", "net/http: TLS handshake timeout")
"""What the API server answers when a server took longer than it waits."""
_PAUSE: Final = 0.1
_COMMITS: Final = 1.0

Noticed = PenstockError | str
"""A request that failed, or the uid of what was lost."""


class Load:
    """The users of one cluster."""

    def __init__(self, cluster: Cluster, api: Client, repository: Repository) -> None:
        self.failures: list[PenstockError] = []
        self.done = 0
        self._row = 0
        self._cluster = cluster
        self._api = api
        self._repository = repository
        # Above the numbers that earlier users of this cluster have left in it.
        self._number = time.time_ns()
        self._kept: set[str] = set()

    async def begin(self) -> None:
        """Have everything applied for the first time."""
        self._commit()
        url = self._repository.url
        await asyncio.to_thread(
            self._cluster.apply,
            source(url, interval="1s"),
            source(url, name="charts", interval="1s"),
            kustomization(path="./apps"),
            release(),
        )
        await self.settled()
        self._kept = await self._objects()

    async def settled(self) -> None:
        """Commit once more, and return when that is what the cluster has."""
        self._commit()
        wanted = {"web": str(self._number), "charted": str(self._number)}
        await until(lambda: self._has(wanted))
        await until(self._is_ready)

    async def more(self, count: int = 20) -> None:
        """Return after so many more requests were answered."""
        wanted = self.done + count
        await until(lambda: self.done >= wanted)

    async def steady(self, count: int = 20) -> None:
        """Return after so many requests in a row were answered."""
        self._row = 0
        await until(lambda: self._row >= count)

    async def noticed(self) -> list[Noticed]:
        """Return what failed and what was lost until everything is applied and answered again.

        Reads that the aggregator refuses by itself do not count: it gives a server 5 s to answer,
        and 10 s for a handshake, which a busy machine exceeds. Nothing is returned twice.
        """
        await self.more()
        await self.settled()
        failed = [exc for exc in self.failures if not str(exc).endswith(_TOO_LATE)]
        self.failures.clear()
        return [*failed, *await self.lost()]

    async def lost(self) -> set[str]:
        """Return the uids of what was there at the beginning and is not there now."""
        return self._kept - await self._objects()

    @contextmanager
    def refusals(self) -> Iterator[list[PenstockError]]:
        """Give the failures of the block, which a test expects, and count them no more."""
        before, self.failures = self.failures, []
        yield self.failures
        self.failures = before

    async def work(self) -> None:
        """Write, read and commit until cancelled."""
        obj = kustomization(suspend=True)
        obj["metadata"]["name"] = "load"

        async def write() -> None:
            await self._api.apply(obj, manager="load", dry_run=True)

        async def read() -> None:
            await self._api.list(_INVENTORY, TEAM)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(write))
            group.create_task(self._repeat(read))
            group.create_task(self._commits())

    async def _repeat(self, request: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await request()
                self.done += 1
                self._row += 1
            except PenstockError as exc:
                self._row = 0
                self.failures.append(exc)
            await asyncio.sleep(_PAUSE)

    async def _commits(self) -> None:
        while True:
            self._commit()
            await asyncio.sleep(_COMMITS)

    def _commit(self) -> None:
        self._number += 1
        data = {_NUMBER: str(self._number)}
        numbers = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "web"},
            "data": data,
        }
        files = {
            "apps/web.yaml": yaml.safe_dump(web()),
            "apps/numbers.yaml": yaml.safe_dump(numbers),
            **chart(**data),
        }
        self._repository.commit(files)

    async def _has(self, wanted: dict[str, str]) -> bool:
        with contextlib.suppress(PenstockError):
            for name, number in wanted.items():
                found = await self._api.get(_CONFIG_MAP, name, TEAM)
                if int(dig(found, "data", _NUMBER, default="0")) < int(number):
                    return False
            return True
        return False

    async def _is_ready(self) -> bool:
        for gvk, name in ((_KUSTOMIZATION, "app"), (_RELEASE, "charted")):
            obj = await self._api.get(gvk, name, TEAM)
            rows = {row["type"]: row["status"] for row in dig(obj, "status", "conditions")}
            if rows.get("Ready") != "True":
                return False
        return True

    async def _objects(self) -> set[str]:
        found: list[Json] = []
        for gvk in (_CONFIG_MAP, _DEPLOYMENT, _POD, _KUSTOMIZATION, _RELEASE):
            found += await self._api.list(gvk, TEAM)
        return uids(found)


@asynccontextmanager
async def load(cluster: Cluster, directory: Path) -> AsyncIterator[Load]:
    """Have users at work in namespace ``team``, whose objects are there when the block begins."""
    async with (
        cluster.client() as api,
        GitServer(directory, host=cluster.address, address=cluster.address) as server,
    ):
        running = Load(cluster, api, server.repository("load"))
        await running.begin()
        working = asyncio.create_task(running.work())
        try:
            yield running
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
