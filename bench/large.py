"""The life of one Kustomization of N ConfigMaps: how its passes grow, and what a change costs."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import yaml

from bench import floor, healing, load, work
from bench.collection import Collection
from bench.floor import Floor
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import status
from cli.demo import gitserver
from cli.demo.repository import Repository
from toolkit.kube import client
from toolkit.objects import Json

NAMESPACE: Final = "bench-large"
NAME: Final = "all"
_FLOOR: Final = f"{NAMESPACE}-floor"
_A_FILE: Final = 100
"""Objects of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share."""

    api: client.Client
    plan: Plan
    meter: Meter
    repository: Repository
    kustomizations: Collection
    config_maps: Collection
    floor: Floor

    @property
    def names(self) -> list[str]:
        """Return the names of the objects."""
        return load.names(self.plan.count)


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Measure the floor; make the repository and the source, and wait until that is fetched."""
    api, plan = given.api, given.plan
    least = await floor.measured(
        api,
        given.meter,
        given.names,
        lambda name: [config_map(name, namespace=_FLOOR)],
        namespace=_FLOOR,
        done=floor.Done(gvk=load.CONFIG_MAP, satisfied=lambda obj: obj is not None),
    )
    kinds = (load.GIT_REPOSITORY, load.KUSTOMIZATION, load.CONFIG_MAP)
    async with given.namespace(NAMESPACE, (load.GIT_REPOSITORY, load.SOURCE)):
        repository = await Repository.create(given.root, "large")
        await repository.commit("Add the objects", write=files(plan.count))
        async with (
            gitserver.serve(given.root / "served") as server,
            given.watched(NAMESPACE, *kinds) as (sources, kustomizations, config_maps),
        ):
            source = load.git_repository(server.url("large.git"), plan.labels)
            source["metadata"]["namespace"] = NAMESPACE
            await api.apply(source, manager="bench")
            await work.fetched(sources, load.SOURCE)
            yield Bench(
                api=api,
                plan=plan,
                meter=given.meter,
                repository=repository,
                kustomizations=kustomizations,
                config_maps=config_maps,
                floor=least,
            )


async def create(bench: Bench) -> Phase:
    """Create the Kustomization; done when it is Ready."""
    body = load.kustomization(NAME, bench.plan.labels)
    body["metadata"]["namespace"] = NAMESPACE
    body["spec"]["path"] = "./"
    async with bench.meter.phase("create -> Ready", bench.plan.count) as phase:
        began = time.perf_counter()
        await bench.api.create(body)
        phase.wall = await _settled(bench) - began
    phase.floor = bench.floor.applied
    return phase


async def change(bench: Bench) -> Phase:
    """Change one object; done when it has changed and the Kustomization has the revision."""
    name = bench.names[bench.plan.count // 2]
    commit = await bench.repository.commit(
        "Change one object", write=files(bench.plan.count, changed=name)
    )
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("one change", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.ask(bench.api, load.GIT_REPOSITORY, load.SOURCE, NAMESPACE, work.token())
        changed = await bench.config_maps.all(
            [name],
            lambda obj: healing.message(obj) == "second",
            seconds=bench.plan.patience,
            what="the change has not arrived",
        )
        phase.wall = await _settled(bench, commit) - began
    phase.note = f"the object after {changed[name] - began:.2f}s"
    return phase


async def requested(bench: Bench) -> Phase:
    """Request a reconciliation, with nothing changed."""
    token = work.token()
    async with bench.meter.phase("requested no-op", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.ask(bench.api, load.KUSTOMIZATION, NAME, NAMESPACE, token)
        reached = await bench.kustomizations.all(
            [NAME], work.handled(token), seconds=bench.plan.patience, what="not handled"
        )
        phase.wall = reached[NAME] - began
    return phase


async def delete(bench: Bench) -> Phase:
    """Delete the Kustomization; done when it and its objects are gone."""
    async with bench.meter.phase("delete", bench.plan.count) as phase:
        began = time.perf_counter()
        await bench.api.delete(load.KUSTOMIZATION, NAME, NAMESPACE)
        ended = [
            await collection.all(names, work.gone, seconds=bench.plan.patience, what="not gone")
            for collection, names in (
                (bench.kustomizations, [NAME]),
                (bench.config_maps, bench.names),
            )
        ]
        phase.wall = max(moment for each in ended for moment in each.values()) - began
    phase.floor = bench.floor.deleted
    return phase


PHASES: Final = (
    create,  # the first apply of all objects
    requested,  # everything checked again, nothing to do
    change,  # one object differs: no other may be sent
    delete,  # pruning
)


def config_map(name: str, *, message: str = "first", namespace: str = NAMESPACE) -> Json:
    """Return one of the objects."""
    metadata = {"name": name, "namespace": namespace}
    data = {load.DATA_KEY: message}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def files(count: int, *, changed: str = "") -> dict[str, str]:
    """Return the files of the repository; the object ``changed`` differs."""
    objects = [
        config_map(name, message="second" if name == changed else "first")
        for name in load.names(count)
    ]
    return {
        f"objects-{start:05d}.yaml": yaml.safe_dump_all(objects[start : start + _A_FILE])
        for start in range(0, count, _A_FILE)
    }


async def _settled(bench: Bench, commit: str = "") -> float:
    """Return when the Kustomization is Ready, at the commit if one is given."""
    reached = await bench.kustomizations.all(
        [NAME],
        lambda obj: work.ready(obj) and status.revision(obj or {}).endswith(commit),
        seconds=bench.plan.patience,
        what="the Kustomization is not Ready",
    )
    return reached[NAME]
