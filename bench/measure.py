"""One phase measured: wall time, processor time, peak memory, API requests."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench import apirequests, processes
from toolkit.kube import client


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Process ids and metrics endpoints to look at, and where events go; any may be empty."""

    controllers: tuple[int, ...] = ()
    control_plane: tuple[int, ...] = ()
    metrics: tuple[str, ...] = ()
    events: str = ""


@dataclass(slots=True, kw_only=True)
class Phase:
    """What a phase took. ``requests`` are of all clients but the bench; -1 is not measured.

    ``cpu_by_component`` are the parts of ``controller_cpu``, ``memory_before`` is what the
    processes had when it began.
    ``latencies`` are seconds per object, where the phase has such, and ``beside`` those of the same
    without what is measured; ``note`` is for the reader. ``floor`` is the phase that does the same
    with no controller's part.
    """

    name: str
    count: int
    wall: float = 0.0
    controller_cpu: float = -1.0
    control_plane_cpu: float = -1.0
    cpu_by_component: Mapping[str, float] = field(default_factory=dict)
    memory_before: int = -1
    peak_memory: int = -1
    requests: Mapping[str, int] = field(default_factory=dict)
    own_requests: int = 0
    controller_requests: int = -1
    latencies: tuple[float, ...] = ()
    beside: tuple[float, ...] = ()
    note: str = ""
    floor: "Phase | None" = None

    @property
    def all_requests(self) -> int:
        """Return the requests of all clients but the bench."""
        return max(0, sum(self.requests.values()) - self.own_requests)

    @property
    def requests_each(self) -> float:
        """Return requests per object, of the controllers where those are known, else of all."""
        total = self.all_requests if self.controller_requests < 0 else self.controller_requests
        return total / self.count if self.count else float(total)


class Meter:
    """Measures phases one after another."""

    def __init__(self, api: client.Client, watched: Watched, peak: processes.Peak) -> None:
        self._api = api
        self.watched = watched
        self._peak = peak

    @asynccontextmanager
    async def phase(self, name: str, count: int) -> AsyncIterator[Phase]:
        """Measure what the block does; it may set ``wall`` itself, to leave its own work out."""
        phase = Phase(name=name, count=count)
        verbs = await apirequests.by_verb(self._api)
        controllers = await apirequests.of_controllers(self.watched.metrics)
        own = apirequests.our_own()
        self._peak.reset()
        phase.memory_before = self._peak.bytes if self.watched.controllers else -1
        shares = processes.cpu_by_component(self.watched.controllers)
        cpu, plane = self._cpu()
        began = time.perf_counter()
        yield phase
        phase.wall = phase.wall or time.perf_counter() - began
        cpu_after, plane_after = self._cpu()
        self._peak.look()
        phase.own_requests = round(apirequests.our_own() - own)
        phase.requests = apirequests.difference(verbs, await apirequests.by_verb(self._api))
        if self.watched.controllers:
            phase.controller_cpu = cpu_after - cpu
            after = processes.cpu_by_component(self.watched.controllers)
            phase.cpu_by_component = {
                name: round(seconds - shares.get(name, 0.0), 2) for name, seconds in after.items()
            }
            phase.peak_memory = self._peak.bytes
        if self.watched.control_plane:
            phase.control_plane_cpu = plane_after - plane
        if self.watched.metrics:
            total = await apirequests.of_controllers(self.watched.metrics)
            phase.controller_requests = round(total - controllers)

    def _cpu(self) -> tuple[float, float]:
        return (
            processes.cpu_seconds(self.watched.controllers),
            processes.cpu_seconds(self.watched.control_plane),
        )
