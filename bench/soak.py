"""A steady stream of commits, with readers and watchers of the aggregated API that come and go.

Three repositories take turns: one commit a second, each changes one directory and is asked for at
once. N Kustomizations apply the directories. Every ten seconds the memory of each process is noted,
so that a curve that goes on rising is seen: ``--curve`` is the file that gets a line each time.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import load, processes, work
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import errors
from cli.demo import gitserver
from cli.demo.repository import Repository
from toolkit.errors import PenstockError
from toolkit.kube import client
from toolkit.objects import Json

SOURCES: Final = 3
EVERY: Final = 10.0
"""Seconds between two lines of the curve."""
READERS: Final = 8
WATCHERS: Final = 40
_WATCH_SECONDS: Final = (1, 60)
_READY_WITHIN: Final = 300.0
_SERVED: Final = f"/apis/gitops.penstock.dev/v1alpha1/namespaces/{load.NAMESPACE}"
_JSON: Final = "application/json"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_READS: Final = (
    # path below the namespace, and the form
    ("inventories", _JSON),
    ("inventories", _TABLE),
    ("inventories", _METADATA),
    ("inventories/app-0000/objects", _JSON),
    ("inventories/app-0000/tree", _JSON),
    ("artifacts", _JSON),
    ("artifacts", _TABLE),
)
_WATCHED: Final = (("inventories", _JSON), ("inventories", _TABLE), ("artifacts", _JSON))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the soak needs."""

    api: client.Client
    plan: Plan
    meter: Meter
    repositories: tuple[Repository, ...]


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Make repositories, sources and Kustomizations, and wait until all are Ready."""
    api, root, names = given.api, given.root, given.names
    async with given.namespace(load.NAMESPACE):
        repositories = [await Repository.create(root, _source(index)) for index in range(SOURCES)]
        async with (
            gitserver.serve(root / "served") as server,
            given.watched(load.NAMESPACE, load.KUSTOMIZATION) as (kustomizations,),
        ):
            for index, repository in enumerate(repositories):
                files: dict[str, str] = {}
                for name in names[index::SOURCES]:
                    files |= load.files(name, message="first", kustomize=False)
                await repository.commit("Add the apps", write=files)
                await api.apply(_repository(server, _source(index)), manager="bench")
            for number, name in enumerate(names):
                await api.create(_kustomization(name, _source(number % SOURCES)))
            await kustomizations.all(names, work.ready, seconds=_READY_WITHIN, what="not Ready")
            yield Bench(
                api=api, plan=given.plan, meter=given.meter, repositories=tuple(repositories)
            )


async def soak(bench: Bench) -> Phase:
    """Commit, read and watch for the planned time."""
    plan = bench.plan
    async with bench.meter.phase(f"{plan.seconds:.0f}s of commits", plan.count) as phase:
        ending = asyncio.timeout(plan.seconds)
        with contextlib.suppress(TimeoutError), errors.ungrouped():
            async with ending, asyncio.TaskGroup() as group:
                group.create_task(_commit(bench))
                group.create_task(_curve(bench, plan.curve))
                for number in range(READERS):
                    group.create_task(_read(bench.api, number))
                for number in range(WATCHERS):
                    group.create_task(_watch(bench.api, number))
    return phase


PHASES: Final = (soak,)


def _source(index: int) -> str:
    return f"{load.SOURCE}-{index}"


def _repository(server: gitserver.GitServer, name: str) -> Json:
    obj = load.git_repository(server.url(f"{name}.git"), {})
    obj["metadata"]["name"] = name
    return obj


def _kustomization(name: str, source: str) -> Json:
    obj = load.kustomization(name, {})
    obj["spec"]["sourceRef"]["name"] = source
    obj["spec"]["wait"] = False
    return obj


async def _commit(bench: Bench) -> None:
    """Commit once a second, in each repository in turn, and ask its source to fetch."""
    names = load.names(bench.plan.count)
    number = 0
    while True:
        began = time.perf_counter()
        index = number % SOURCES
        mine = names[index::SOURCES]
        name = mine[(number // SOURCES) % len(mine)]
        files = load.files(name, message=f"commit {number}", kustomize=False)
        await bench.repositories[index].commit("Change one app", write=files)
        await work.ask(bench.api, load.GIT_REPOSITORY, _source(index), load.NAMESPACE, work.token())
        number += 1
        await asyncio.sleep(max(0.0, began + 1 - time.perf_counter()))


async def _read(api: client.Client, number: int) -> None:
    """Ask for one thing after the other, with a pause."""
    while True:
        path, accept = _READS[number % len(_READS)]
        with contextlib.suppress(PenstockError):
            await api.read(f"{_SERVED}/{path}", query={}, accept=accept)
        number += 1
        await asyncio.sleep(random.uniform(0.5, 2))  # noqa: S311 - spreads the load


async def _watch(api: client.Client, number: int) -> None:
    """Watch for some time, then begin another one."""
    path, accept = _WATCHED[number % len(_WATCHED)]
    while True:
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - spreads the ends
        query = {"watch": "true", "timeoutSeconds": str(seconds), "allowWatchBookmarks": "true"}
        with contextlib.suppress(PenstockError):
            async with api.watch(f"{_SERVED}/{path}", query=query, accept=accept) as chunks:
                async for _ in chunks:
                    pass


async def _curve(bench: Bench, path: Path | None) -> None:
    """Note the memory of each process now and then: seconds, then resident and own KiB of each."""
    if path is None:
        await asyncio.Event().wait()
        return
    pids = (*bench.meter.watched.controllers, *bench.meter.watched.control_plane)
    heads = [f"{name}:{what}" for name in map(processes.name, pids) for what in ("rss", "pss")]
    await asyncio.to_thread(path.write_text, ",".join(("seconds", *heads)) + "\n")
    began = time.perf_counter()
    while True:
        sizes = [size for pid in pids for size in await asyncio.to_thread(processes.sizes, pid)]
        line = ",".join(map(str, (round(time.perf_counter() - began), *sizes)))
        await asyncio.to_thread(_append, path, line)
        await asyncio.sleep(EVERY)


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
