"""The life of N Kustomizations, phase by phase; each measured, none knowing who reconciles."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from bench import appliers, floor, healing, load, processes, work
from bench.appliers import Appliers
from bench.given import Given
from bench.measure import Phase
from bench.work import Plan
from cli import status
from cli.demo import gitserver
from cli.demo.repository import Repository
from toolkit.objects import Json

_AT_REST: Final = 65.0
"""Seconds after which workers without work have ended."""
_IDLE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(Appliers):
    """The Kustomizations, and the repository that they apply."""

    repository: Repository


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
            await work.fetched(sources, load.SOURCE)
            yield Bench(
                api=api,
                plan=plan,
                meter=given.meter,
                repository=repository,
                gvk=load.KUSTOMIZATION,
                namespace=load.NAMESPACE,
                objects=applied,
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
    labels = bench.plan.labels
    return await appliers.created(
        bench, "create -> Ready", lambda name: load.kustomization(name, labels)
    )


async def idle(bench: Bench) -> Phase:
    """Let half a minute pass in which nothing happens; the note has the memory of each process."""
    await asyncio.sleep(_AT_REST)
    async with bench.meter.phase("idle", bench.plan.count) as phase:
        await asyncio.sleep(_IDLE_SECONDS)
    sizes = processes.memory_by_component(bench.meter.watched.controllers)
    each = ", ".join(f"{name} {size >> 20} MiB" for name, size in sizes.items())
    phase.note = f"{phase.controller_cpu / phase.wall:.1%} of a core; {each}"
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
        reached = await bench.all(
            lambda obj: work.ready(obj) and status.revision(obj or {}).endswith(commit),
            "have not applied the revision",
        )
        work.timed(phase, began, reached)
    phase.note = f"the object after {changed[name] - began:.2f}s"
    return phase


PHASES: Final = (
    create,  # the first apply, and the waiting for health
    idle,  # nothing is asked for, and no interval comes round
    appliers.requested,  # everything checked again, nothing to do
    appliers.interval,  # nothing checked, nothing to do: should cost nothing
    change,  # a new revision that concerns one of them
    appliers.heal,  # somebody edits by hand
    appliers.delete,  # finalizers, pruning
)
