"""The artifacts of objects without a finalizer are deleted with them, and no others."""

import contextlib
import os
from collections.abc import AsyncIterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import crds
from controllers.source import helmchart
from controllers.source.family import Family
from controllers.source.janitor import Janitor, unheld
from controllers.source.sources import SOURCES, Row
from crds.source_helm import HelmChart
from tests.fakes.apiserver import FakeApiServer
from tests.tools.tasks import running
from tests.tools.waiting import until
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller, ControllerOptions, Outcome
from toolkit.kube.informer import Informer
from toolkit.kube.reconciliation import FINALIZER, Event
from toolkit.objects import GroupVersionKind

KIND = GroupVersionKind(*crds.HELM_CHART.gvk)
PLURAL = crds.HELM_CHART.plural
MADE = {"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "team"}
SPEC = {"chart": "app", "interval": "5m", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}


class Bench:
    """A janitor of HelmCharts, the API server that it follows and the store that it tidies."""

    def __init__(
        self,
        server: FakeApiServer,
        client: Client,
        root: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        self.server, self.client, self.root, self.caplog = server, client, root, caplog
        self.store = Storage(
            root / "store", advertised="localhost", retention_ttl=0, retention_records=1
        )
        self.informer = Informer(client, KIND, decode=msgspec.json.Decoder(HelmChart).decode)

    async def chart(self, name: str, *finalizers: str) -> None:
        tree = self.root / name
        tree.mkdir()
        (tree / "a.yaml").touch()
        await self.store.store(
            self.owner(name), revision="1", filename="1.tar.gz", tree=tree, ignore=Ignore()
        )
        meta = {"name": name, "namespace": "team", "labels": MADE, "finalizers": [*finalizers]}
        kind = {"apiVersion": KIND.api_version, "kind": KIND.kind}
        self.server._store(PLURAL, None, {**kind, "metadata": meta, "spec": SPEC})

    def owner(self, name: str) -> Owner:
        return Owner(kind=KIND.kind, namespace="team", name=name)

    def stored(self, name: str) -> bool:
        # Unlike `glob`, `walk` passes over a directory that goes meanwhile.
        walked = os.walk(self.root / "store" / self.owner(name).path)
        return any(fnmatch(file, "[!.]*.tar.gz") for _, _, files in walked for file in files)

    @contextlib.asynccontextmanager
    async def running(self, *, parts: bool = False) -> AsyncIterator[None]:
        """Run the janitor, and wait until it has swept what went before."""
        await self.chart("orphan")
        self.server.remove(PLURAL, "orphan", "team")
        janitor = Janitor(self.client, self.store, self.informer, leaves=unheld, parts=parts)
        async with running(self.informer.run()):
            await self.informer.wait_synced()
            async with running(janitor.run()):
                await until(lambda: "orphaned artifacts removed" in self.caplog.messages)
                yield


@pytest_asyncio.fixture
async def bench(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Bench]:
    caplog.set_level("INFO")
    server = FakeApiServer()
    server.kinds[(KIND.group, KIND.version, PLURAL)] = KIND.kind
    async with server.running() as client:
        yield Bench(server, client, tmp_path, caplog)


@pytest.mark.parametrize(("parts", "requests"), [(False, 0), (True, 1)])
async def test_the_artifacts_of_a_deleted_chart_go_with_it(
    bench: Bench, *, parts: bool, requests: int
) -> None:
    for name in ("gone", "stays"):
        await bench.chart(name)

    async with bench.running(parts=parts):
        before = bench.server.count("GET", f"{PLURAL}/")
        bench.server.remove(PLURAL, "gone", "team")
        await until(lambda: not bench.stored("gone"))

    assert bench.stored("stays")
    assert bench.server.count("GET", f"{PLURAL}/") == before + requests


async def test_a_chart_that_another_shard_took_over_keeps_its_artifacts(bench: Bench) -> None:
    await bench.chart("moved")
    await bench.chart("gone")

    async with bench.running(parts=True):
        # as the watch of a shard shows it
        moved = bench.server.objects[PLURAL, "team", "moved"]
        bench.server._tell("DELETED", PLURAL, moved)
        bench.server.remove(PLURAL, "gone", "team")
        await until(lambda: not bench.stored("gone"))

    assert bench.stored("moved")


async def test_a_chart_with_the_finalizer_is_left_to_its_controller(bench: Bench) -> None:
    await bench.chart("held", FINALIZER)
    await bench.chart("gone")

    async with bench.running():
        bench.server._drop(PLURAL, bench.server.objects[PLURAL, "team", "held"])
        bench.server.remove(PLURAL, "gone", "team")
        await until(lambda: not bench.stored("gone"))

    assert bench.stored("held")


async def test_what_went_while_nobody_looked_is_found_without_asking_for_the_others(
    bench: Bench,
) -> None:
    await bench.chart("stays")

    async with bench.running():
        assert not bench.stored("orphan")

    assert bench.stored("stays")
    assert bench.server.count("GET", f"{PLURAL}/") == 1


def test_only_charts_of_releases_have_no_finalizer() -> None:
    def made(**labels: str) -> HelmChart:
        return msgspec.convert(
            {"metadata": {"name": "a", "labels": labels}, "spec": SPEC}, HelmChart
        )

    assert helmchart.held(made())
    assert not helmchart.held(made(**MADE))


class Nobody:
    """What a controller needs that makes no pass."""

    async def reconcile(self, _: object) -> Outcome:
        raise AssertionError("no pass is wanted here")

    async def finalize(self, _: object) -> None:
        raise AssertionError("no pass is wanted here")

    def emit(self, _: Event) -> None:
        raise AssertionError("no event is wanted here")


@pytest.mark.parametrize("row", SOURCES, ids=lambda row: row.kind.kind)
async def test_the_artifacts_of_every_kind_go_if_a_user_removes_the_finalizer(
    row: Row, tmp_path: Path
) -> None:
    kind, server = GroupVersionKind(*row.kind.gvk), FakeApiServer()
    server.kinds[(kind.group, kind.version, row.kind.plural)] = kind.kind
    store, owner = Storage(tmp_path, advertised="x"), Owner(kind=kind.kind, namespace="a", name="b")
    (tmp_path / ".file").touch()
    await store.store_file(owner, revision="1", filename="1.tgz", file=tmp_path / ".file")
    server.put(row.kind.plural, "b", "a")
    nobody = Nobody()
    async with server.running() as client:
        controller: Controller[Any] = Controller(
            kind=row.kind,
            client=client,
            reconcile=nobody.reconcile,
            finalize=nobody.finalize,
            options=ControllerOptions(),
            recorder=nobody,
            field_manager="test",
        )
        family = Family(members={kind.kind: controller})
        (janitor,) = family.janitors(client, store, parts=False)
        async with running(controller.informer.run()):
            await controller.informer.wait_synced()
            async with running(janitor.run()):
                assert await store.usage(kind.kind)
                server.remove(row.kind.plural, "b", "a")
                await until(lambda: not (tmp_path / owner.path).exists())
