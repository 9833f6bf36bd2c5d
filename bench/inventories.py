"""The aggregated API with N inventories, beside N ConfigMaps from the API server itself.

Each inventory is of a suspended Kustomization that has applied one ConfigMap. Both kinds are asked
through the same API server by the same client, in turns, so what the note shows is a ratio of one
run. Watchers take what ``PACE`` changes a second bring; each change is one Kustomization's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from bench import load, report, work
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import errors
from toolkit.apply.ownership import Owner
from toolkit.errors import PenstockError
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json

NAMESPACE: Final = "bench-inventories"
WATCHERS: Final = 100
CROWD: Final = 200
"""Watchers that wait for one change."""
GAP: Final = 0.5
"""Seconds before such a change: one that follows another at once is served with a delay."""
PACE: Final = 50
"""Changes a second."""
SECONDS: Final = 10
ROUNDS: Final = 10

_SERVED: Final = f"/apis/gitops.penstock.dev/v1alpha1/namespaces/{NAMESPACE}/inventories"
_BUILT_IN: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
_JSON: Final = "application/json"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PAGE: Final = "500"
_FIRST: Final = "main@sha1:" + "0" * 40
_SECOND: Final = "main@sha1:" + "1" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share."""

    api: client.Client
    meter: Meter
    count: int


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Make the Kustomizations and their ConfigMaps, and wait until all inventories are there."""
    async with given.namespace(NAMESPACE):
        await work.parallel(given.names, lambda name: _applied(given.api, name))
        await _until_served(given.api, given.plan)
        yield Bench(api=given.api, meter=given.meter, count=given.plan.count)


async def listed(bench: Bench) -> list[Phase]:
    """List all as JSON, as a table, and one page of them."""
    shapes: Mapping[str, tuple[str, Mapping[str, str]]] = {
        "list": (_JSON, {}),
        "table": (_TABLE, {}),
        f"page of {_PAGE}": (_JSON, {"limit": _PAGE}),
    }
    return [await _compared(bench, name, *shape) for name, shape in shapes.items()]


async def got(bench: Bench) -> Phase:
    """Get one by name."""
    return await _compared(bench, "get", _JSON, {}, below=f"/{load.names(1)[0]}")


async def watched(bench: Bench) -> Phase:
    """Watch with many clients while Kustomizations change; done when all have seen all."""
    names = load.names(min(bench.count, PACE * SECONDS))
    started = dict.fromkeys(names, 0.0)
    delays: list[float] = []
    listing = msgspec.json.decode(await bench.api.read(_SERVED, query={"limit": "1"}, accept=_JSON))
    position = str(listing["metadata"]["resourceVersion"])

    async def watcher() -> None:
        query = {"watch": "true", "resourceVersion": position, "timeoutSeconds": "600"}
        missing = set(names)
        async with bench.api.watch(_SERVED, query=query, accept=_JSON) as chunks:
            async for line in _lines(chunks):
                event = _EVENT.decode(line)
                name = event.object.metadata.name
                if name in missing and event.object.status.revision == _SECOND:
                    missing.discard(name)
                    delays.append(time.perf_counter() - started[name])
                if not missing:
                    return
        raise PenstockError("a watch ended before it had seen every change")

    async with bench.meter.phase(f"{WATCHERS} watchers, {PACE} changes/s", len(names)) as phase:
        with errors.ungrouped():
            async with asyncio.TaskGroup() as group, asyncio.timeout(work.Plan(count=1).patience):
                for _ in range(WATCHERS):
                    group.create_task(watcher())
                await asyncio.sleep(1)
                await _at_a_pace(names, lambda name: _moved(bench.api, name, started))
    phase.latencies = tuple(delays)
    phase.note = f"{len(delays)} events delivered"
    return phase


async def fanned_out(bench: Bench) -> Phase:
    """Tell many watchers of one change: how long until the last one has it."""
    name = load.names(1)[0]
    times: Mapping[str, list[float]] = {_SERVED: [], _BUILT_IN: []}
    with errors.ungrouped():
        async with (
            asyncio.timeout(work.Plan(count=1).patience),
            _crowd(bench.api, _SERVED) as ours,
            _crowd(bench.api, _BUILT_IN) as theirs,
            bench.meter.phase(f"one change, {CROWD} watchers", ROUNDS) as phase,
        ):
            for number in range(1, ROUNDS + 1):
                await asyncio.sleep(GAP)
                marker = f"main@sha1:{number:040x}"
                change = _report(bench.api, name, {"lastAppliedRevision": marker})
                times[_SERVED].append(await ours.told(marker, change))
                change = _annotate(bench.api, name, marker)
                times[_BUILT_IN].append(await theirs.told(marker, change))
    phase.latencies, phase.beside = tuple(times[_SERVED]), tuple(times[_BUILT_IN])
    median, other = (report.quantile(found, 0.5) for found in times.values())
    phase.note = f"{median / other:.2f}x of ConfigMaps ({other * 1000:.0f} ms)"
    return phase


PHASES: Final = (
    listed,  # what dashboards and kubectl ask for
    got,  # one of them
    watched,  # many who wait for changes
    fanned_out,  # the same, for one change alone
)


class _Crowd:
    """Watchers of one collection, and how many of them have seen what is waited for."""

    def __init__(self, api: client.Client, path: str) -> None:
        self._api = api
        self._path = path
        self._marker = b""
        self._missing = 0
        self._open = 0
        self._done = asyncio.Event()
        self.ready = asyncio.Event()

    async def told(self, marker: str, change: Awaitable[None]) -> float:
        """Return the seconds from a change until the last watcher had the ``marker`` in it."""
        self._done.clear()
        self._marker, self._missing = marker.encode(), CROWD
        began = time.perf_counter()
        await change
        await self._done.wait()
        return time.perf_counter() - began

    async def watch(self, position: str) -> None:
        """Follow the collection until cancelled."""
        query = {"watch": "true", "resourceVersion": position, "timeoutSeconds": "600"}
        seen = b""
        async with self._api.watch(self._path, query=query, accept=_JSON) as chunks:
            self._open += 1
            if self._open == CROWD:
                self.ready.set()
            async for line in _lines(chunks):
                if self._marker != seen and self._marker in line:
                    seen = self._marker
                    self._missing -= 1
                    if not self._missing:
                        self._done.set()
        raise PenstockError("a watch ended before it had seen every change")


@asynccontextmanager
async def _crowd(api: client.Client, path: str) -> AsyncIterator[_Crowd]:
    listing = msgspec.json.decode(await api.read(path, query={"limit": "1"}, accept=_JSON))
    crowd = _Crowd(api, path)
    async with asyncio.TaskGroup() as group:
        position = str(listing["metadata"]["resourceVersion"])
        tasks = [group.create_task(crowd.watch(position)) for _ in range(CROWD)]
        await crowd.ready.wait()
        yield crowd
        for task in tasks:
            task.cancel()


async def _annotate(api: client.Client, name: str, marker: str) -> None:
    change = {"metadata": {"annotations": {"bench.penstock.dev/marker": marker}}}
    await api.patch(_CONFIG_MAP, name, NAMESPACE, change, strategy="merge")


async def _compared(
    bench: Bench, name: str, accept: str, query: Mapping[str, str], *, below: str = ""
) -> Phase:
    """Ask both in turns; the phase's latencies are ours, the note tells theirs and the ratio."""
    ours: list[float] = []
    theirs: list[float] = []
    size = 0
    for path in (_SERVED, _BUILT_IN):  # warm
        await bench.api.read(path + below, query=query, accept=accept)
    async with bench.meter.phase(name, bench.count) as phase:
        for _ in range(ROUNDS):
            for path, times in ((_SERVED, ours), (_BUILT_IN, theirs)):
                began = time.perf_counter()
                body = await bench.api.read(path + below, query=query, accept=accept)
                times.append(time.perf_counter() - began)
                size = len(body) if path == _SERVED else size
    phase.latencies, phase.beside = tuple(ours), tuple(theirs)
    phase.wall = sum(ours) / len(ours)
    median, other = report.quantile(ours, 0.5), report.quantile(theirs, 0.5)
    phase.note = (
        f"{median / other:.2f}x of ConfigMaps ({other * 1000:.0f} ms), {size / (1 << 20):.1f} MiB"
    )
    return phase


async def _at_a_pace(names: list[str], change: Callable[[str], Awaitable[object]]) -> None:
    async with asyncio.TaskGroup() as group:
        async for number in work.paced(len(names), PACE):
            group.create_task(_awaited(change(names[number])))


async def _awaited(change: Awaitable[object]) -> None:
    await change


async def _moved(api: client.Client, name: str, started: dict[str, float]) -> None:
    started[name] = time.perf_counter()
    await _report(api, name, {"lastAppliedRevision": _SECOND})


async def _applied(api: client.Client, name: str) -> None:
    """Leave a Kustomization and its ConfigMap as a controller that applied it would."""
    owner = Owner(namespace=NAMESPACE, name=name)
    metadata: Json = {"name": name, "namespace": NAMESPACE}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "labels": owner.labels},
        "data": {load.DATA_KEY: name * 20},
    }
    await api.apply(config, manager="kustomize-controller")
    await api.create(
        load.custom(load.KUSTOMIZATION, name, {}, namespace=NAMESPACE)
        | {
            "spec": {
                "interval": "24h",
                "suspend": True,
                "prune": False,
                "sourceRef": {"kind": "GitRepository", "name": load.SOURCE},
            },
        }
    )
    status = {
        "inventory": {"entries": [{"id": f"{NAMESPACE}_{name}__ConfigMap", "v": "v1"}]},
        "lastAppliedRevision": _FIRST,
        "observedGeneration": 1,
    }
    await _report(api, name, status)


async def _report(api: client.Client, name: str, status: Json) -> None:
    resource = await api.mapper.resource(load.KUSTOMIZATION)
    await api.request(
        "PATCH",
        f"{resource.path(name, NAMESPACE)}/status",
        body={"status": status},
        headers={"Content-Type": "application/merge-patch+json"},
    )


async def _until_served(api: client.Client, plan: Plan) -> None:
    async with asyncio.timeout(plan.patience):
        while True:
            body = await api.read(_SERVED, query={}, accept=_JSON)
            items = msgspec.json.decode(body, type=_List).items
            if len(items) == plan.count and all(each.status.objects == 1 for each in items):
                return
            await asyncio.sleep(0.5)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


class _Meta(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    objects: int = 0
    revision: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


class _List(msgspec.Struct):
    items: list[_Object]


_EVENT: Final = msgspec.json.Decoder(_Event)
