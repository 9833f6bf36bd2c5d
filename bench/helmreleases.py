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
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from bench import appliers, floor, healing, load, work
from bench.appliers import Appliers
from bench.given import Given
from bench.measure import Phase
from cli import status
from tests.fakes.chartrepository import ChartRepository
from toolkit.objects import GroupVersionKind, Json
from toolkit.release import names

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
class Bench(Appliers):
    """The HelmReleases, and the repository that serves their chart."""

    repository: ChartRepository


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
        await work.fetched(sources, CHARTS)
        yield Bench(
            api=api,
            plan=plan,
            meter=given.meter,
            repository=repository,
            gvk=HELM_RELEASE,
            namespace=NAMESPACE,
            objects=releases,
            config_maps=config_maps,
            deployments=deployments,
            floor=least,
        )


async def create(bench: Bench) -> Phase:
    """Create all; done when all are Ready, which means that their objects are."""
    phase = await appliers.created(bench, "install", lambda name: release(name, bench.plan.labels))
    phase.note = f"{phase.memory_before / (1 << 20):.0f} MiB before"
    return phase


async def upgrade(bench: Bench) -> Phase:
    """Offer another version of the chart; done when all are Ready at it."""
    bench.repository.add(CHART, SECOND, files=chart(SECOND))
    await asyncio.sleep(healing.QUIET_BEFORE)
    async with bench.meter.phase("new chart version", bench.plan.count) as phase:
        began = time.perf_counter()
        await work.ask(bench.api, HELM_REPOSITORY, CHARTS, NAMESPACE, work.token())
        reached = await bench.all(
            lambda obj: work.ready(obj) and status.revision(obj or {}) == SECOND,
            "have not applied the version",
        )
        work.timed(phase, began, reached)
    return phase


PHASES: Final = (
    create,  # the chart, the install, the waiting for health
    appliers.requested,  # everything checked again, nothing to do
    appliers.interval,  # nothing checked, nothing to do: should cost nothing
    upgrade,  # a new version for all of them
    appliers.heal,  # somebody edits by hand
    appliers.delete,  # uninstall
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


def _objects(name: str) -> list[Json]:
    """Return the objects of one release, and a Secret as large as its record."""
    documents = load.files(name, message=FIRST, kustomize=False).values()
    objects: list[Json] = [yaml.safe_load(text) for text in documents]
    for each in objects:
        each["metadata"]["namespace"] = FLOOR
    # What does not compress stands for the chart, whose templates are a part of the record.
    told = json.dumps(objects).encode() + os.urandom(_CHART_BYTES)
    record = base64.b64encode(base64.b64encode(gzip.compress(told))).decode()
    metadata = {"name": names.record(name, 1), "namespace": FLOOR}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"r": record}}
    return [secret, *objects]


_CHART_BYTES: Final = 2048
