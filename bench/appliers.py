"""The phases of N objects of one kind, each of which applies four others.

Kustomizations and HelmReleases share them. What such an object looks like, and what changes what it
applies, is in the module of each part.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench import healing, load, work
from bench.collection import Collection, Predicate
from bench.floor import Floor
from bench.measure import Meter, Phase
from bench.work import Plan
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, dig


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliers:
    """The objects of one kind in one namespace, and what they apply, as watches show them."""

    api: client.Client
    plan: Plan
    meter: Meter
    gvk: GroupVersionKind
    namespace: str
    objects: Collection
    config_maps: Collection
    deployments: Collection
    floor: Floor

    @property
    def names(self) -> list[str]:
        """Return the names of all objects."""
        return load.names(self.plan.count)

    async def all(self, satisfied: Predicate, what: str) -> Mapping[str, float]:
        """Wait until every object satisfies; return when each of them did.

        Raises:
            PenstockError: that took too long; the message contains ``what``.
        """
        return await self.objects.all(
            self.names, satisfied, seconds=self.plan.patience, what=f"{self.gvk.kind}s {what}"
        )


async def created(bench: Appliers, title: str, body: Callable[[str], Json]) -> Phase:
    """Create all; done when all are Ready, which means that the objects that they apply are."""
    async with bench.meter.phase(title, bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(bench.names, lambda name: bench.api.create(body(name)))
        work.timed(phase, began, await bench.all(work.ready, "not Ready"))
    phase.floor = bench.floor.applied
    return phase


async def requested(bench: Appliers) -> Phase:
    """Request a reconciliation of all, with nothing changed."""
    token = work.token()
    async with bench.meter.phase("requested no-op", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names,
            lambda name: work.ask(bench.api, bench.gvk, name, bench.namespace, token),
        )
        work.timed(phase, began, await bench.all(work.handled(token), "not reconciled"))
    return phase


async def interval(bench: Appliers) -> Phase:
    """Let two intervals pass in which nothing changes."""
    seconds = bench.plan.interval
    await _set_interval(bench, f"{seconds:g}s")
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("interval no-op", bench.plan.count) as phase:
        await asyncio.sleep(2 * seconds)
    phase.note = f"2 intervals of {seconds:g}s"
    await _set_interval(bench, load.NO_INTERVAL)
    return phase


async def heal(bench: Appliers) -> Phase:
    """Change objects by hand, one after another, and see how soon each is put right."""
    names = (bench.names * bench.plan.heals)[: bench.plan.heals]
    return await healing.measured(bench.meter, bench.api, bench.config_maps, bench.namespace, names)


async def delete(bench: Appliers) -> Phase:
    """Delete all; done when all of them and their objects are gone."""
    async with bench.meter.phase("delete all", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names, lambda name: bench.api.delete(bench.gvk, name, bench.namespace)
        )
        reached = dict(await bench.all(work.gone, "not deleted"))
        for collection in (bench.config_maps, bench.deployments):
            late = await collection.all(
                bench.names, work.gone, seconds=bench.plan.patience, what="objects not deleted"
            )
            reached |= {name: max(reached[name], moment) for name, moment in late.items()}
        work.timed(phase, began, reached)
    phase.floor = bench.floor.deleted
    return phase


async def _set_interval(bench: Appliers, text: str) -> None:
    body: Json = {"spec": {"interval": text}}
    await work.parallel(
        bench.names,
        lambda name: bench.api.patch(bench.gvk, name, bench.namespace, body, strategy="merge"),
    )
    await bench.all(
        lambda obj: work.ready(obj) and dig(obj or {}, "spec", "interval") == text,
        "have not observed the new interval",
    )
