"""Inventories of clusters that do not answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from cli.trees.observing import _Observer
from tests.fakes import virtualtime
from toolkit.kube.mapper import Resource
from toolkit.objects import GroupVersionKind, Json


class Api:
    """Has Kustomizations of two clusters."""

    def __init__(self) -> None:
        self.mapper = self

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        return Resource(gvk=gvk, plural="kustomizations", namespaced=True)

    async def read(self, path: str, **_: Any) -> bytes:
        name = path.rpartition("/")[2]
        spec = {"kubeConfig": {"secretRef": {"name": name.partition("-")[0]}}}
        metadata = {"name": name, "namespace": "apps"}
        return msgspec.json.encode({"metadata": metadata, "spec": spec})


class Silent:
    """Clusters that take requests, and answer none (``RemoteClients`` and their clients)."""

    @asynccontextmanager
    async def client(self, *_: object) -> AsyncIterator["Silent"]:
        yield self

    async def request(self, *_: object) -> Json:
        await asyncio.Event().wait()
        return {}


def inventory(name: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "apps"},
        "spec": {"remote": True, "applierRef": {"kind": "Kustomization", "name": name}},
        "status": {"objects": 1, "observed": 0},
    }


def test_nobody_waits_twice_for_a_cluster_that_does_not_answer() -> None:
    async def main() -> tuple[list[Json], float]:
        api: Any = Api()
        remotes: Any = Silent()
        observer = _Observer(api, remotes)
        names = [f"{cluster}-{number}" for cluster in ("a", "b") for number in range(20)]
        found = await asyncio.gather(*(observer.complete(inventory(name)) for name in names))
        return list(found), asyncio.get_running_loop().time()

    found, seconds = virtualtime.run(main)

    told = {each["status"]["message"] for each in found}
    assert told == {"on another cluster (spec.kubeConfig): the cluster did not answer in 20 s"}
    assert all(each["status"]["observed"] == 0 for each in found)
    assert 40 <= seconds < 60
