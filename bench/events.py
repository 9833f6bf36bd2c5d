"""Events in and out: N events a phase to the notification controller, ten Providers behind it.

Each event is wanted by ten Alerts, so it becomes ten deliveries. ``flood`` posts 1,000 events a
second, which is more than one process delivers: what is told then is the newest event of each
object. ``steady`` posts as many a second as it keeps up with. Latencies are the time from the post
of an object's last event to its arrival at each service; those of the answers are in the note.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

import aiohttp
import msgspec

from bench import report, work
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import status
from cli.demo import sample
from toolkit.errors import PenstockError
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json

PROVIDERS: Final = 10
_FLOOD: Final = 1000.0
_STEADY: Final = 50.0
_OBJECTS: Final = 10
"""Events of one object."""
_GROUP: Final = "notification.toolkit.fluxcd.io"
_PROVIDER: Final = GroupVersionKind(_GROUP, "v1", "Provider")
_ALERT: Final = GroupVersionKind(_GROUP, "v1", "Alert")
# Providers of this namespace may lead to private addresses.
_NAMESPACE: Final = sample.NAMESPACE
_HEADERS: Final = {"Content-Type": "application/json"}
_TOLD: Final = re.compile(rb'"message":"(\d+)"')
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")


@dataclass(slots=True)
class Sink:
    """The services: when each was told of each event."""

    told: dict[tuple[int, int], float] = field(default_factory=dict)
    address: str = ""


class _Service(asyncio.Protocol):
    """As little of HTTP as a client of ours needs, so that the bench measures it and not this."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to answer."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take requests that have come whole."""
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, rest = self._read.partition(b"\r\n\r\n")
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            if len(rest) < size:
                return
            body, self._read = rest[:size], rest[size:]
            if found := _TOLD.search(body):
                service = int(head.split(b" ", 2)[1].lstrip(b"/"))
                self._sink.told.setdefault((service, int(found[1])), time.perf_counter())
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What both phases share."""

    plan: Plan
    meter: Meter
    sink: Sink
    session: aiohttp.ClientSession


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Serve ten services, and apply their Providers and Alerts."""
    if not given.meter.watched.events:
        raise PenstockError("events are measured on a fresh cluster: leave out --kubeconfig")
    api, sink = given.api, Sink()
    await work.set_up(api, _NAMESPACE)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Service(sink), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        try:
            for number in range(PROVIDERS):
                for obj in _objects(number, f"http://{host}:{port}/{number}"):
                    await api.apply(obj, manager="bench")
            while not await _ready(api):  # noqa: ASYNC110 - ten objects, once
                await asyncio.sleep(0.1)
            yield Bench(plan=given.plan, meter=given.meter, sink=sink, session=session)
        finally:
            server.close()


async def flood(bench: Bench) -> Phase:
    """Post more than can be delivered."""
    return await _posted(bench, "flood", _FLOOD, first=0)


async def steady(bench: Bench) -> Phase:
    """Post what can be delivered."""
    return await _posted(bench, "steady", _STEADY, first=bench.plan.count)


PHASES: Final = (flood, steady)


async def _posted(bench: Bench, name: str, pace: float, *, first: int) -> Phase:
    count = bench.plan.count
    objects = max(1, count // _OBJECTS)
    newest = range(first + count - objects, first + count)
    begun: dict[int, float] = {}
    answered: list[float] = []

    async def post(number: int) -> None:
        begun[number] = time.perf_counter()
        url, body = bench.meter.watched.events, _event(number, number % objects)
        async with bench.session.post(url, data=body, headers=_HEADERS) as response:
            if response.status != 202:
                raise PenstockError(f"an event was answered with HTTP {response.status}")
        answered.append(time.perf_counter() - begun[number])

    wanted = {(service, number) for service in range(PROVIDERS) for number in newest}
    async with bench.meter.phase(name, count * PROVIDERS) as phase:
        async with asyncio.timeout(bench.plan.patience), asyncio.TaskGroup() as group:
            async for number in work.paced(count, pace):
                group.create_task(post(first + number))
        async with asyncio.timeout(bench.plan.patience):
            while not wanted <= bench.sink.told.keys():  # noqa: ASYNC110 - the services tell nobody
                await asyncio.sleep(0.05)
    told = [
        when for (_, number), when in bench.sink.told.items() if first <= number < first + count
    ]
    phase.latencies = tuple(bench.sink.told[each] - begun[each[1]] for each in wanted)
    middle, last = (report.quantile(answered, share) * 1000 for share in (0.5, 0.99))
    phase.note = (
        f"{len(told)} of {count * PROVIDERS} deliveries, the newest of each object;"
        f" answers p50 {middle:.1f} ms, p99 {last:.1f} ms"
    )
    return phase


async def _ready(api: client.Client) -> bool:
    found = await api.list(_PROVIDER, _NAMESPACE)
    return len(found) == PROVIDERS and all(status.settled(each) for each in found)


def _objects(number: int, address: str) -> tuple[Json, Json]:
    name = f"bench-{number}"
    metadata = {"name": name, "namespace": _NAMESPACE}
    sources = [{"kind": "Kustomization", "name": "*"}]
    return (
        {
            "apiVersion": _PROVIDER.api_version,
            "kind": _PROVIDER.kind,
            "metadata": metadata,
            "spec": {"type": "generic", "address": address},
        },
        {
            "apiVersion": _ALERT.api_version,
            "kind": _ALERT.kind,
            "metadata": metadata,
            "spec": {"providerRef": {"name": name}, "eventSources": sources},
        },
    )


def _event(number: int, about: int) -> bytes:
    return msgspec.json.encode(
        {
            "involvedObject": {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "namespace": _NAMESPACE,
                "name": f"app-{about}",
                "uid": f"uid-{about}",
            },
            "severity": "info",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": str(number),
            "reason": "ReconciliationSucceeded",
            "metadata": {
                "kustomize.toolkit.fluxcd.io/revision": "main@sha1:" + "0" * 40,
                "kustomize.toolkit.fluxcd.io/changes": "1 configured: Deployment/shop/web",
            },
            "reportingController": "kustomize-controller",
        }
    )
