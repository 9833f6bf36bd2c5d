"""The life of N HelmReleases of one chart, phase by phase, and beside it the floor.

The floor is what no controller can do without: the objects of the releases and the Secrets that
Helm keeps of them, applied straight over as many connections as the bench creates with.
"""

import asyncio
import base64
import gzip
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from bench import floor, healing, load, work
from bench.collection import Collection
from bench.floor import Floor
from bench.given import Given
from bench.measure import Meter, Phase
from bench.work import Plan
from cli import status
from tests.fakes.chartrepository import ChartRepository
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, dig

NAMESPACE: Final = "bench-helm"
FLOOR: Final = "bench-helm-floor"
CHART: Final = "app"
CHARTS: Final = "charts"
FIRST, SECOND = "1.0.0", "1.1.0"

HELM_RELEASE: Final = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
HELM_REPOSITORY: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmRepository")
_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_NAME: Final = "{{ .Release.Name }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share."""

    api: client.Client
    plan: Plan
    meter: Meter
    repository: ChartRepository
    releases: Collection
    config_maps: Collection
    deployments: Collection
    floor: Floor

    @property
    def names(self) -> list[str]:
        """Return the names of all releases."""
        return load.names(self.plan.count)


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Measure the floor; serve the chart, make the source, and wait until that is fetched."""
    api, plan = given.api, given.plan
    least = await floor.measured(api, given.meter, given.names, _objects, namespace=FLOOR)
    kinds = (HELM_REPOSITORY, HELM_RELEASE, load.CONFIG_MAP, load.DEPLOYMENT)
    async with (
        given.namespace(NAMESPACE, (HELM_REPOSITORY, CHARTS)),
        ChartRepository() as repository,
        given.watched(NAMESPACE, *kinds) as (sources, releases, config_maps, deployments),
    ):
        repository.add(CHART, FIRST, files=chart(FIRST))
        source = load.custom(HELM_REPOSITORY, CHARTS, plan.labels, namespace=NAMESPACE)
        spec = {"interval": load.NO_INTERVAL, "url": repository.url}
        await api.apply(source | {"spec": spec}, manager="bench")
        await sources.all([CHARTS], work.ready, seconds=_SOURCE_WITHIN, what="the source")
        yield Bench(
            api=api,
            plan=plan,
            meter=given.meter,
            repository=repository,
            releases=releases,
            config_maps=config_maps,
            deployments=deployments,
            floor=least,
        )


async def create(bench: Bench) -> Phase:
    """Create all; done when all are Ready, which means that their objects are."""
    async with bench.meter.phase("install", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names, lambda name: bench.api.create(release(name, bench.plan.labels))
        )
        work.timed(phase, began, await _all(bench, work.ready, "HelmReleases not Ready"))
    phase.floor = bench.floor.applied
    phase.note = f"{phase.memory_before / (1 << 20):.0f} MiB before"
    return phase


async def requested(bench: Bench) -> Phase:
    """Request a reconciliation of all, with nothing changed."""
    token = work.token()
    async with bench.meter.phase("requested no-op", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names, lambda name: work.ask(bench.api, HELM_RELEASE, name, NAMESPACE, token)
        )
        work.timed(phase, began, await _all(bench, work.handled(token), "requests not handled"))
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


async def upgrade(bench: Bench) -> Phase:
    """Offer another version of the chart; done when all are Ready at it."""
    bench.repository.add(CHART, SECOND, files=chart(SECOND))
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("new chart version", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.ask(bench.api, HELM_REPOSITORY, CHARTS, NAMESPACE, work.token())
        reached = await _all(
            bench,
            lambda obj: work.ready(obj) and status.revision(obj or {}) == SECOND,
            "the version has not arrived",
        )
        work.timed(phase, began, reached)
    return phase


async def heal(bench: Bench) -> Phase:
    """Change objects by hand, one after another, and see how soon each is put right."""
    names = (bench.names * bench.plan.heals)[: bench.plan.heals]
    return await healing.measured(bench.meter, bench.api, bench.config_maps, NAMESPACE, names)


async def delete(bench: Bench) -> Phase:
    """Delete all; done when all HelmReleases and their objects are gone."""
    async with bench.meter.phase("delete all", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.names, lambda name: bench.api.delete(HELM_RELEASE, name, NAMESPACE)
        )
        reached = dict(await _all(bench, work.gone, "HelmReleases not deleted"))
        for collection in (bench.config_maps, bench.deployments):
            late = await collection.all(
                bench.names, work.gone, seconds=bench.plan.patience, what="objects not deleted"
            )
            reached |= {name: max(reached[name], moment) for name, moment in late.items()}
        work.timed(phase, began, reached)
    phase.floor = bench.floor.deleted
    return phase


PHASES: Final = (
    create,  # the chart, the install, the waiting for health
    requested,  # everything checked again, nothing to do
    interval,  # nothing checked, nothing to do: should cost nothing
    upgrade,  # a new version for all of them
    heal,  # somebody edits by hand
    delete,  # uninstall
)


def chart(version: str) -> dict[str, str]:
    """Return the files of the chart: the objects of a directory of the Kustomizations' bench."""
    metadata = {"apiVersion": "v2", "name": CHART, "version": version}
    templates = {
        f"templates/{Path(path).name}": text.replace(f"  namespace: {load.NAMESPACE}\n", "")
        for path, text in load.files("PLACE", message=version, kustomize=False).items()
    }
    return {
        "Chart.yaml": yaml.safe_dump(metadata),
        **{path: text.replace("PLACE", _NAME) for path, text in templates.items()},
    }


def release(name: str, labels: Mapping[str, str]) -> Json:
    """Return one HelmRelease."""
    source = {"kind": HELM_REPOSITORY.kind, "name": CHARTS}
    spec = {"chart": CHART, "version": ">=1", "sourceRef": source}
    return load.custom(HELM_RELEASE, name, labels, namespace=NAMESPACE) | {
        "spec": {
            "interval": load.NO_INTERVAL,
            "timeout": "5m",
            "chart": {"spec": spec},
            "driftDetection": {"mode": "enabled"},
        }
    }


_SOURCE_WITHIN: Final = 120.0


async def _all(
    bench: Bench, satisfied: Callable[[Json | None], bool], what: str
) -> Mapping[str, float]:
    return await bench.releases.all(bench.names, satisfied, seconds=bench.plan.patience, what=what)


async def _set_interval(bench: Bench, text: str) -> None:
    body: Json = {"spec": {"interval": text}}
    await work.parallel(
        bench.names,
        lambda name: bench.api.patch(HELM_RELEASE, name, NAMESPACE, body, strategy="merge"),
    )
    await _all(
        bench,
        lambda obj: work.ready(obj) and dig(obj or {}, "spec", "interval") == text,
        "the new interval was not observed",
    )


def _objects(name: str) -> list[Json]:
    """Return the objects of one release, and a Secret as large as its record."""
    documents = load.files(name, message=FIRST, kustomize=False).values()
    objects: list[Json] = [yaml.safe_load(text) for text in documents]
    for each in objects:
        each["metadata"]["namespace"] = FLOOR
    # What does not compress stands for the chart, whose templates are a part of the record.
    told = json.dumps(objects).encode() + os.urandom(_CHART_BYTES)
    record = base64.b64encode(base64.b64encode(gzip.compress(told))).decode()
    metadata = {"name": f"sh.helm.release.v1.{name}.v1", "namespace": FLOOR}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"r": record}}
    return [secret, *objects]


_CHART_BYTES: Final = 2048
