"""Passes of the real HelmRelease reconciler over objects in memory; only Helm is a stand-in."""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from controllers.applying.accounts import Accounts
from controllers.applying.clusters import Cluster
from controllers.applying.dependencies import Gate
from controllers.applying.identity import Identities
from controllers.helm.chartcounts import ChartCounts
from controllers.helm.charts import Charts
from controllers.helm.deleting import HelmReleaseFinalizer
from controllers.helm.helmrelease import HelmReleaseReconciler
from controllers.helm.owners import Owners
from controllers.helm.running.acting import Actor
from controllers.helm.running.engine import Engine
from controllers.helm.running.freshness import Freshness
from controllers.helm.running.memory import Memory
from controllers.helm.running.records import Records
from controllers.helm.running.releasing import Releaser
from controllers.helm.running.uninstalling import Uninstaller
from controllers.helm.settings import Settings
from controllers.helm.sources import ChartReader
from controllers.helm.templates import Templates
from crds import HELM_CHART, HELM_RELEASE, OCI_REPOSITORY
from crds.helm import HelmRelease
from crds.source_oci import OCIRepository
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.granting import AnySource, allowing
from tests.fakes.helmengine import Api, Helm
from toolkit import telemetry
from toolkit.apply import health
from toolkit.apply.clock import ServerClock
from toolkit.apply.health import NOT_FOUND, Health, Status
from toolkit.apply.pace import Pace
from toolkit.apply.wait import Waits
from toolkit.artifact.cache import Extracted
from toolkit.errors import PenstockError
from toolkit.helm.actions import Chart, Order, Release
from toolkit.kube import verdict
from toolkit.kube.informer import Change
from toolkit.kube.reconciliation import Event, Outcome, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

KIND = GroupVersionKind(*HELM_RELEASE.gvk)
CHART = GroupVersionKind(*HELM_CHART.gvk)
OCI = GroupVersionKind(*OCI_REPOSITORY.gvk)
DIGEST = "sha256:" + "a" * 64
VERSION = f"1.0.0+{DIGEST[7:19]}"
"""Of the chart that the source offers first."""
INSTALLED = f"Helm install succeeded for release team/app.v1 with chart shop@{VERSION}"


class Live:
    """What watches would show of the objects in an ``Api``."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.healths: dict[str, Health] = {}
        self.expected: dict[Any, Any] = {}
        self.watched: frozenset[Any] = frozenset()

    def ensure(self, _: ObjectKey, kinds: Iterable[Any]) -> None:
        self.watched = frozenset(kinds)

    def health(self, _: ObjectKey, ref: ObjectRef) -> Health | None:
        """Return what a test says of an object, else what it shows itself, if it is watched."""
        if ref.gvk not in self.watched:
            return None
        obj = self.api.objects.get(ref.identity)
        if obj is None:
            return NOT_FOUND
        return self.healths.get(ref.name) or health.assess(obj)

    def current(self, _: ObjectRef) -> bool:
        return True

    def find(self, _: ObjectRef) -> None:
        return None

    def unwatched(self, _: ObjectKey) -> frozenset[Any]:
        return frozenset()

    def known(self, _: ObjectKey) -> dict[Any, Any]:
        return dict(self.expected)

    def untouched(self, _: ObjectKey) -> frozenset[Any]:
        return frozenset(self.expected)

    async def wait_synced(self, _: ObjectKey, **__: Any) -> bool:
        return True

    def proves(self, _: ObjectKey) -> bool:
        return True

    def expect(self, _: ObjectKey, known: Any, *, partial: bool = False) -> None:
        self.expected = {**self.expected, **known} if partial else dict(known)

    def ignored(self, *_: Any, **__: Any) -> None:
        """Take what only real watches need."""

    observe = hold = release = forget = set_rules = ignored


class Clusters:
    """The one cluster of a test."""

    def __init__(self, api: Api, enqueue: Any) -> None:
        client: Any = api
        live: Any = Live(api)
        waits = Waits(live, lambda owner: enqueue(owner, "health"), monotonic=lambda: self.now)
        self.now = 0.0
        self.local = Cluster(
            number=0, client=client, live=live, waits=waits, clock=ServerClock(), pace=Pace()
        )

    @asynccontextmanager
    async def of(self, _: HelmRelease) -> AsyncIterator[Cluster]:
        yield self.local

    def forget(self, key: ObjectKey) -> None:
        self.local.forget(key)


class Artifacts:
    """A fetcher whose artifacts all hold one chart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "shop").mkdir()
        (directory / "shop" / "Chart.yaml").touch()

    @asynccontextmanager
    async def extracted(self, *_: Any) -> AsyncIterator[Extracted]:
        yield Extracted(self.directory, 0)


class World:
    """One HelmRelease ``team/app`` of the OCIRepository ``shop``, and its passes."""

    def __init__(
        self, directory: Path, *, namespace: str = "team", client: Any = None, **spec: Any
    ) -> None:
        self.helm = Helm()
        self.api: Any = client or Api()
        self.key = ObjectKey(namespace, "app")
        self.artifacts = Artifacts(directory)
        self.events: list[Event] = []
        self.woken: list[str] = []
        self.objects: dict[tuple[str, ObjectKey], Any] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.armed = False
        self.obj = self._object(spec)
        self.source()
        self.start()

    def start(self) -> None:
        """Begin a process, which knows nothing yet."""
        unused: Any = None
        enqueue = self._enqueue
        self.clusters = self.make_clusters(enqueue)
        clusters: Any = self.clusters
        fetcher: Any = self.artifacts
        client: Any = self.api
        policy = allowing()
        reader = ChartReader(
            {
                "OCIRepository": (OCI, lambda key: self.objects.get(("OCIRepository", key))),
                "HelmChart": (CHART, lambda key: self.objects.get(("HelmChart", key))),
            },
            policy=policy,
            sources=AnySource(),
        )
        self.records = Records(enqueue, Freshness(lambda: 0))
        self.owners = Owners(lambda key: self.objects.get(("HelmRelease", key)), enqueue)
        engine = Engine(run=self.helm.run, records=self.records)
        memory = Memory()
        identities = Identities(
            own=client, remotes=unused, installed=ObjectKey("penstock-system", "helm-applier")
        )
        settings = Settings()
        templates = Templates(
            client=client,
            reader=reader,
            lookup=lambda key: self.objects.get(("HelmChart", key)),
            counts=ChartCounts(0),
        )
        uninstaller = Uninstaller(engine=engine, owners=self.owners)
        self.reconciler = HelmReleaseReconciler(
            settings=settings,
            templates=templates,
            sources=reader,
            gate=Gate(
                lookups={KIND: lambda key: self.objects.get(("HelmRelease", key))},
                policy=policy,
                evaluates=NoEvaluator(),
            ),
            secrets=unused,
            charts=Charts(fetcher, self._load),
            clusters=clusters,
            identities=identities,
            memory=memory,
            records=self.records,
            accounts=Accounts(
                labels=lambda namespace: self.namespaces.get(namespace, {}), default=""
            ),
            admission=self,
            owners=self.owners,
            releaser=Releaser(actor=Actor(engine=engine), settings=settings, admission=self),
            uninstaller=uninstaller,
            known=self._known,
            stored=lambda: True,
            serving=lambda _: "cluster",
        )
        self.finalizer = HelmReleaseFinalizer(
            clusters=clusters,
            identities=identities,
            memory=memory,
            records=self.records,
            templates=templates,
            uninstaller=uninstaller,
            serving=lambda _: "cluster",
        )

    def decrypts(self, obj: Any) -> bool:
        """Tell whether the webhook that decrypts is registered (``opening.Decrypting``)."""
        return self.armed and obj.spec.kube_config is None

    def make_clusters(self, enqueue: Any) -> Any:
        """Return the clusters, whose watches are the test's."""
        return Clusters(self.api, enqueue)

    def source(self, version: str = "1.0.0", digest: str = DIGEST) -> None:
        """Have the source offer a version of the chart."""
        self.helm.chart = Chart(name="shop", version=version)
        self.objects["OCIRepository", ObjectKey(self.key.namespace, "shop")] = msgspec.convert(
            {
                "metadata": {"name": "shop", "namespace": self.key.namespace, "generation": 1},
                "spec": {"url": "oci://r.test/shop", "interval": "1m"},
                "status": {
                    "observedGeneration": 1,
                    "artifact": {
                        "digest": f"sha256:{digest[7:]}",
                        "lastUpdateTime": "2026-01-01T00:00:00Z",
                        "path": "ocirepository/team/shop/x.tar.gz",
                        "revision": f"{version}@{digest}",
                        "url": "http://artifacts.test/x.tar.gz",
                    },
                },
            },
            OCIRepository,
        )

    def spec(self, **spec: Any) -> None:
        """Change the spec, as a user would."""
        old = msgspec.to_builtins(self.obj)
        body = {**old, "spec": {**old["spec"], **spec}}
        body["metadata"] = {**old["metadata"], "generation": self.obj.metadata.generation + 1}
        self.obj = msgspec.convert(body, HelmRelease)

    def ask(self, **annotations: str) -> None:
        """Set annotations ``reconcile.fluxcd.io/<name>``."""
        meta = msgspec.structs.replace(
            self.obj.metadata,
            annotations={f"reconcile.fluxcd.io/{k}": v for k, v in annotations.items()},
        )
        self.obj = msgspec.structs.replace(self.obj, metadata=meta)

    def object_is(self, status: str, message: str = "", name: str = "web") -> None:
        """Have an object become something, and the watches tell of it."""
        cluster = self.clusters.local
        live: Any = cluster.live
        live.healths[name] = Health(Status(status), message)
        for obj in self.api.objects.values():
            if obj["metadata"]["name"] == name:
                gvk = GroupVersionKind.parse(obj["apiVersion"], obj["kind"])
                cluster.waits.changed(self.key, ObjectRef(gvk, obj["metadata"]["namespace"], name))

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on, and those who wait notice it."""
        self.clusters.now += seconds
        self.clusters.local.waits.tick()

    def rival(self, namespace: str, name: str, *, created: str, **spec: Any) -> None:
        """Have another HelmRelease appear, or change."""
        body = msgspec.to_builtins(self._object(spec))
        body["metadata"] |= {"name": name, "namespace": namespace, "creationTimestamp": created}
        key, kind = ObjectKey(namespace, name), "HelmRelease"
        old, new = self.objects.get((kind, key)), msgspec.convert(body, HelmRelease)
        self.objects[kind, key] = new
        self.owners.changed(Change("MODIFIED" if old else "ADDED", key, old, new))

    def appears(self) -> Change[HelmRelease]:
        """Return the event by which the informer shows the object."""
        self.objects["HelmRelease", self.key] = self.obj
        return Change("ADDED", self.key, None, self.obj)

    def lose(self, namespace: str, name: str) -> None:
        """Have another HelmRelease disappear."""
        key = ObjectKey(namespace, name)
        gone = self.objects.pop(("HelmRelease", key))
        self.owners.changed(Change("DELETED", key, gone, None))

    async def run(self, *triggers: str) -> Outcome | PenstockError:
        """Run a pass as the controller does, with what it writes; return how it ended."""
        rec = self._pass(triggers)
        ended: Outcome | PenstockError
        try:
            ended = outcome = await self.reconciler.reconcile(rec)
            judged = verdict.succeeded(outcome)
        except PenstockError as error:
            ended = error
            judged = verdict.failed(
                error, requeue_dependency=30, retry_interval=None, reconcile_id="1"
            )
        if judged.written:
            verdict.settle(rec, judged)
            await rec.write()
        text = judged.message if judged.event is None else judged.event
        if text and judged.severity == "error":
            rec.event(judged.severity, judged.reason, text)
        return ended

    async def ready(self, *triggers: str) -> Outcome:
        """Run a pass that ends well."""
        ended = await self.run(*triggers)
        assert isinstance(ended, Outcome), ended
        return ended

    async def delete(self) -> PenstockError | None:
        """Delete the object, and run the pass that finalizes it."""
        meta = msgspec.structs.replace(self.obj.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.obj = msgspec.structs.replace(self.obj, metadata=meta)
        rec = self._pass(())
        try:
            await self.finalizer.finalize(rec)
        except PenstockError as error:
            return error
        finally:
            await rec.write()
        return None

    def shows_records(self) -> None:
        """Have the watch show which records there are."""
        for (namespace, name), kept in self.helm.releases.items():
            for each in kept:
                key = ObjectKey(namespace, f"sh.helm.release.v1.{name}.v{each.version}")
                self.records.changed(Change("ADDED", key, None, "1"))

    def changes_storage(self, status: str = "deployed") -> None:
        """Have somebody else change the newest record, and the watch show it."""
        kept = self.helm.releases["team", "app"]
        info = msgspec.structs.replace(kept[-1].info, status=status, description="changed")
        kept[-1] = msgspec.structs.replace(kept[-1], info=info)
        key = ObjectKey("team", f"sh.helm.release.v1.app.v{kept[-1].version}")
        self.records.changed(Change("MODIFIED", key, "900", "999"))

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition; empty texts if there is none."""
        for each in self.obj.status.conditions:
            if each.type == kind:
                return each.status, each.reason, each.message
        return "", "", ""

    @property
    def told(self) -> list[str]:
        """Return the events, as severity, reason and first line."""
        return [f"{e.severity} {e.reason}: {e.message.splitlines()[0]}" for e in self.events]

    def emit(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    def _object(self, spec: Json) -> HelmRelease:
        return msgspec.convert(
            {
                "apiVersion": "helm.toolkit.fluxcd.io/v2",
                "kind": "HelmRelease",
                "metadata": {
                    "name": "app",
                    "namespace": self.key.namespace,
                    "generation": 1,
                    "uid": "u",
                    "creationTimestamp": "2026-01-02T00:00:00Z",
                },
                "spec": {
                    "interval": "5m",
                    "chartRef": {"kind": "OCIRepository", "name": "shop"},
                    **spec,
                },
            },
            HelmRelease,
        )

    def _pass(self, triggers: tuple[str, ...]) -> Reconciliation[HelmRelease]:
        return Reconciliation(
            self.obj,
            KIND,
            id="pass",
            triggers=frozenset(triggers),
            recorder=self,
            log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
            write_status=self._write,
        )

    async def _write(self, obj: HelmRelease, body: Json) -> HelmRelease:
        before = msgspec.to_builtins(self.obj.status)
        merged = {key: value for key, value in {**before, **body}.items() if value is not None}
        for key, value in body.items():
            if isinstance(value, dict) and isinstance(before.get(key), dict):
                merged[key] = {k: v for k, v in {**before[key], **value}.items() if v is not None}
        status = msgspec.convert(merged, type(obj.status))
        self.obj = msgspec.structs.replace(self.obj, status=status)
        return self.obj

    async def _load(self, directory: Path, _: str) -> Chart:
        unused: Any = None
        release = Release(
            cluster="",
            name="",
            namespace="",
            storage_namespace="",
            acting=unused,
            keeping=unused,
            flow="team",
        )
        outcome = await self.helm.run(
            release, Order(action="load", timeout=1, manager="m", chart=directory)
        )
        assert outcome.chart
        return outcome.chart

    async def _known(self) -> None:
        """Wait for nothing."""

    def _enqueue(self, key: ObjectKey, trigger: str) -> None:
        self.woken.append(f"{key} {trigger}")


async def installed(directory: Path, **spec: Any) -> World:
    """Return a world whose release is as desired."""
    world = World(directory, **spec)
    await world.ready("spec")
    world.object_is("Current")
    await world.ready("health")
    assert world.condition("Ready")[0] == "True"
    world.object_is("InProgress")
    world.woken.clear()
    world.events.clear()
    world.helm.orders.clear()
    return world
