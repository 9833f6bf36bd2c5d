"""The life of N OCIRepositories and N HelmCharts against a registry on loopback, phase by phase."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import yaml

from bench import load, work
from bench.collection import Collection
from bench.given import Given
from bench.measure import Phase
from cli import status
from tests.fakes import registry
from tests.fakes.registry import FakeRegistry
from tests.fakes.serving import Seen
from toolkit.objects import GroupVersionKind, Json

NAMESPACE: Final = "bench-sources"
VERSION: Final = "1.0.0"
CHARTS: Final = "charts"
MANIFESTS: Final = "manifests"

OCI_REPOSITORY: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "OCIRepository")
HELM_REPOSITORY: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmRepository")
HELM_CHART: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share; ``artifacts`` and ``charts`` are the objects as a watch shows them."""

    given: Given
    registry: FakeRegistry
    artifacts: Collection
    charts: Collection

    @property
    def kinds(self) -> tuple[tuple[GroupVersionKind, Collection], ...]:
        """Return both kinds and their objects."""
        return (OCI_REPOSITORY, self.artifacts), (HELM_CHART, self.charts)


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Fill a registry, and make the namespace and the HelmRepository that names it."""
    async with (
        given.namespace(NAMESPACE, (HELM_REPOSITORY, CHARTS)),
        FakeRegistry() as served,
        given.watched(NAMESPACE, OCI_REPOSITORY, HELM_CHART) as (artifacts, charts),
    ):
        for name in given.names:
            _push(served, name, "first")
            _push_chart(served, name)
        await given.api.apply(_helm_repository(served, given.plan.labels), manager="bench")
        yield Bench(
            given=given,
            registry=served,
            artifacts=artifacts,
            charts=charts,
        )


async def create(bench: Bench) -> Phase:
    """Create all; done when all are Ready, which for a source means that it is stored."""

    async def both(name: str) -> None:
        await bench.given.api.create(_oci_repository(bench.registry, name, bench.given.plan.labels))
        await bench.given.api.create(_helm_chart(name, bench.given.plan.labels))

    async with _measured(bench, "create -> Ready") as phase:
        began = time.perf_counter()
        await work.parallel(bench.given.names, both)
        work.timed(phase, began, await _all(bench, work.ready, "sources not Ready"))
    return phase


async def requested(bench: Bench) -> Phase:
    """Request a reconciliation of all, with nothing changed."""
    token = work.token()

    async def both(name: str) -> None:
        for gvk, _ in bench.kinds:
            await work.ask(bench.given.api, gvk, name, NAMESPACE, token)

    async with _measured(bench, "requested no-op") as phase:
        began = time.perf_counter()
        await work.parallel(bench.given.names, both)
        reached = await _all(bench, work.handled(token), "requests not handled")
        work.timed(phase, began, reached)
    return phase


async def change(bench: Bench) -> Phase:
    """Move every tag to another artifact; done when all OCIRepositories have it."""
    moved = {name: _push(bench.registry, name, "second") for name in bench.given.names}
    token = work.token()

    def arrived(obj: Json | None) -> bool:
        name = (obj or {}).get("metadata", {}).get("name", "")
        return work.ready(obj) and status.revision(obj or {}).endswith(moved.get(name, "?"))

    async with _measured(bench, "every tag moved", kinds=1) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.given.names,
            lambda name: work.ask(bench.given.api, OCI_REPOSITORY, name, NAMESPACE, token),
        )
        reached = await bench.artifacts.all(
            bench.given.names,
            arrived,
            seconds=bench.given.plan.patience,
            what="the artifact has not arrived",
        )
        work.timed(phase, began, reached)
    return phase


async def delete(bench: Bench) -> Phase:
    """Delete all; done when all are gone, and with them what was stored."""

    async def both(name: str) -> None:
        for gvk, _ in bench.kinds:
            await bench.given.api.delete(gvk, name, NAMESPACE)

    async with _measured(bench, "delete all") as phase:
        began = time.perf_counter()
        await work.parallel(bench.given.names, both)
        work.timed(phase, began, await _all(bench, work.gone, "sources not deleted"))
    return phase


PHASES: Final = (
    create,  # resolve, pull, store
    requested,  # ask the registry, nothing to do
    change,  # a new artifact under every tag
    delete,  # finalizers, the store
)


@asynccontextmanager
async def _measured(bench: Bench, name: str, *, kinds: int = 2) -> AsyncIterator[Phase]:
    """Measure a phase, and count what the registry was asked for each object."""
    before = len(bench.registry.seen)
    async with bench.given.meter.phase(name, bench.given.plan.count * kinds) as phase:
        yield phase
    phase.note = asked(bench.registry.seen[before:], bench.given.plan.count)


def asked(requests: Iterable[Seen], count: int) -> str:
    """Return what a registry was asked for, by kind, for each of ``count`` objects of a kind."""
    kinds = {MANIFESTS: OCI_REPOSITORY.kind, CHARTS: HELM_CHART.kind}
    counts: Counter[str] = Counter()
    for each in requests:
        # /v2/<place>/<name>/<what>/<which>
        parts = each.path.partition("?")[0].split("/")
        place, what = (parts[2], parts[4]) if len(parts) == 6 else ("", each.path)
        counts[f"{kinds.get(place, 'registry')} {each.method} {what}"] += 1
    return ", ".join(f"{name}: {number / count:.2f}" for name, number in sorted(counts.items()))


async def _all(
    bench: Bench, satisfied: Callable[[Json | None], bool], what: str
) -> Mapping[str, float]:
    done = await asyncio.gather(
        *(
            collection.all(
                bench.given.names, satisfied, seconds=bench.given.plan.patience, what=what
            )
            for _, collection in bench.kinds
        )
    )
    return {
        f"{gvk.kind}/{name}": moment
        for (gvk, _), moments in zip(bench.kinds, done, strict=True)
        for name, moment in moments.items()
    }


def _push(served: FakeRegistry, name: str, message: str) -> str:
    """Push what one directory of the Kustomizations' bench holds; return the digest."""
    files = load.files(name, message=message, kustomize=False)
    return str(served.push(f"{MANIFESTS}/{name}", "latest", [registry.tarball(files)])["digest"])


def _push_chart(served: FakeRegistry, name: str) -> None:
    metadata = {"apiVersion": "v2", "name": name, "version": VERSION}
    files = {
        f"{name}/Chart.yaml": yaml.safe_dump(metadata),
        f"{name}/values.yaml": "replicas: 1\n",
        f"{name}/templates/configmap.yaml": yaml.safe_dump(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        ),
    }
    served.push(
        f"{CHARTS}/{name}",
        VERSION,
        [registry.tarball(files)],
        registry.HELM_CONTENT,
        json.dumps(metadata).encode(),
        registry.HELM_CONFIG,
    )


def _oci_repository(served: FakeRegistry, name: str, labels: Mapping[str, str]) -> Json:
    return load.custom(OCI_REPOSITORY, name, labels, namespace=NAMESPACE) | {
        "spec": {
            "interval": load.NO_INTERVAL,
            "url": served.url(f"{MANIFESTS}/{name}"),
            "insecure": True,
        }
    }


def _helm_repository(served: FakeRegistry, labels: Mapping[str, str]) -> Json:
    return load.custom(HELM_REPOSITORY, CHARTS, labels, namespace=NAMESPACE) | {
        "spec": {"type": "oci", "url": served.url(CHARTS), "insecure": True}
    }


def _helm_chart(name: str, labels: Mapping[str, str]) -> Json:
    return load.custom(HELM_CHART, name, labels, namespace=NAMESPACE) | {
        "spec": {
            "interval": load.NO_INTERVAL,
            "chart": name,
            "version": VERSION,
            "sourceRef": {"kind": HELM_REPOSITORY.kind, "name": CHARTS},
        }
    }
