"""The life of N Kustomizations, phase by phase; each measured, none knowing who reconciles."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from bench import floor, healing, load, processes, work
from bench.collection import Collection
from bench.floor import Floor
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import status
from cli.demo import gitserver
from cli.demo.repository import Repository
from toolkit.kube import client
from toolkit.objects import Json, dig

SOURCE_WITHIN: Final = 120.0
_AT_REST: Final = 65.0
"""Seconds after which workers without work have ended."""
_IDLE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share."""

    api: client.Client
    plan: Plan
    meter: Meter
    repository: Repository
    kustomizations: Collection
    config_maps: Collection
    deployments: Collection
    floor: Floor

    @property
    def names(self) -> list[str]:
        """Return the names of all Kustomizations."""
        return load.names(self.plan.count)


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Measure the floor; make the monorepo and the source, and wait until that is fetched."""
    api, plan = given.api, given.plan
    least = await floor.measured(
        api, given.meter, given.names, _straight, namespace=f"{load.NAMESPACE}-floor"
    )
    kinds = (load.GIT_REPOSITORY, load.KUSTOMIZATION, load.CONFIG_MAP, load.DEPLOYMENT)
    async with given.namespace(load.NAMESPACE, (load.GIT_REPOSITORY, load.SOURCE)):
        repository = await _monorepo(given.root, plan)
        async with (
            gitserver.serve(given.root / "served") as server,
            given.watched(load.NAMESPACE, *kinds) as (sources, applied, config_maps, deployments),
        ):
            source = load.git_repository(server.url("bench.git"), plan.labels)
            await api.apply(source, manager="bench")
            await sources.all([load.SOURCE], work.ready, seconds=SOURCE_WITHIN, what="the source")
            yield Bench(
                api=api,
                plan=plan,
                meter=given.meter,
                repository=repository,
                kustomizations=applied,
                config_maps=config_maps,
                deployments=deployments,
                floor=least,
            )


async def _monorepo(root: Path, plan: Plan) -> Repository:
    repository = await Repository.create(root, "bench")
    files: dict[str, str] = {}
    for name in load.names(plan.count):
        files |= load.files(name, message="first", kustomize=plan.kustomize)
    await repository.commit("Add the apps", write=files)
    return repository


def _straight(name: str) -> list[Json]:
    """Return the objects of one directory, in the namespace of the floor."""
    files = load.files(name, message="first", kustomize=False)
    objects: list[Json] = [yaml.safe_load(text) for text in files.values()]
    for each in objects:
        each["metadata"]["namespace"] = f"{load.NAMESPACE}-floor"
    return objects


async def create(bench: Bench) -> Phase:
    """Create all; done when all are Ready, which with ``wait`` means that all objects are."""
    async with bench.meter.phase("create -> Ready", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names,
            lambda name: bench.api.create(load.kustomization(name, bench.plan.labels)),
        )
        reached = await _all(bench, work.ready, "Kustomizations not Ready")
        work.timed(phase, began, reached)
    phase.floor = bench.floor.applied
    return phase


async def idle(bench: Bench) -> Phase:
    """Let half a minute pass in which nothing happens; the note has the memory of each process."""
    await asyncio.sleep(_AT_REST)
    async with bench.meter.phase("idle", bench.plan.count) as phase:
        await asyncio.sleep(_IDLE_SECONDS)
    sizes = processes.memory_by_component(bench.meter.watched.controllers)
    each = ", ".join(f"{name} {size >> 20} MiB" for name, size in sizes.items())
    phase.note = f"{phase.controller_cpu / phase.wall:.1%} of a core; {each}"
    return phase


async def requested(bench: Bench) -> Phase:
    """Request a reconciliation of all, with nothing changed."""
    token = work.token()
    async with bench.meter.phase("requested no-op", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names,
            lambda name: work.ask(bench.api, load.KUSTOMIZATION, name, load.NAMESPACE, token),
        )
        reached = await _all(bench, work.handled(token), "requests not handled")
        work.timed(phase, began, reached)
    return phase


async def interval(bench: Bench) -> Phase:
    """Let two intervals pass in which nothing changes."""
    seconds = bench.plan.interval
    await _set_interval(bench, f"{seconds:g}s")
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("interval no-op", bench.plan.count) as phase:
        await asyncio.sleep(2 * seconds)
    phase.note = f"2 intervals of {seconds:g}s"
    await _set_interval(bench, load.NO_INTERVAL)
    return phase


async def change(bench: Bench) -> Phase:
    """Change one directory; done when its object has changed and all have the new revision."""
    name = bench.names[bench.plan.count // 2]
    files = load.files(name, message="second", kustomize=bench.plan.kustomize)
    commit = await bench.repository.commit("Change one app", write=files)
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("one change to one", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.ask(bench.api, load.GIT_REPOSITORY, load.SOURCE, load.NAMESPACE, work.token())
        changed = await bench.config_maps.all(
            [name],
            lambda obj: healing.message(obj) == "second",
            seconds=bench.plan.patience,
            what="the change has not arrived",
        )
        reached = await _all(
            bench,
            lambda obj: work.ready(obj) and status.revision(obj or {}).endswith(commit),
            "the revision has not arrived",
        )
        work.timed(phase, began, reached)
    phase.note = f"the object after {changed[name] - began:.2f}s"
    return phase


async def heal(bench: Bench) -> Phase:
    """Change objects by hand, one after another, and see how soon each is put right."""
    names = (bench.names * bench.plan.heals)[: bench.plan.heals]
    return await healing.measured(bench.meter, bench.api, bench.config_maps, load.NAMESPACE, names)


async def delete(bench: Bench) -> Phase:
    """Delete all; done when all Kustomizations and their objects are gone."""
    async with bench.meter.phase("delete all", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names,
            lambda name: bench.api.delete(load.KUSTOMIZATION, name, load.NAMESPACE),
        )
        reached = dict(await _all(bench, work.gone, "Kustomizations not deleted"))
        for collection in (bench.config_maps, bench.deployments):
            late = await collection.all(
                bench.names, work.gone, seconds=bench.plan.patience, what="objects not pruned"
            )
            reached |= {name: max(reached[name], moment) for name, moment in late.items()}
        work.timed(phase, began, reached)
    phase.floor = bench.floor.deleted
    return phase


PHASES: Final = (
    create,  # the first apply, and the waiting for health
    idle,  # nothing is asked for, and no interval comes round
    requested,  # everything checked again, nothing to do
    interval,  # nothing checked, nothing to do: should cost nothing
    change,  # a new revision that concerns one of them
    heal,  # somebody edits by hand
    delete,  # finalizers, pruning
)


async def _all(
    bench: Bench, satisfied: Callable[[Json | None], bool], what: str
) -> Mapping[str, float]:
    return await bench.kustomizations.all(
        bench.names, satisfied, seconds=bench.plan.patience, what=what
    )


async def _set_interval(bench: Bench, text: str) -> None:
    body: Json = {"spec": {"interval": text}}
    await work.parallel(
        bench.names,
        lambda name: bench.api.patch(
            load.KUSTOMIZATION, name, load.NAMESPACE, body, strategy="merge"
        ),
    )
    await _all(
        bench,
        lambda obj: work.ready(obj) and dig(obj or {}, "spec", "interval") == text,
        "the new interval was not observed",
    )
