"""A stand-in for the engine's worker: Helm's storage in memory, and objects that it writes.

Each action does to the records what Helm does, and sends its writes through the identities that it
is given, as the worker does. A test says which actions fail.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from controllers.helm.deciding.locks import RECORDER
from controllers.helm.deciding.orders import MANAGER
from toolkit.helm.actions import Chart, Order, Outcome, Release
from toolkit.kube.client import Applied
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.native.calls import EngineError
from toolkit.native.pool import WorkerDiedError
from toolkit.objects import Json, ObjectRef, key_of, ref_of
from toolkit.release import record
from toolkit.release.record import Record


def now() -> str:
    """Return the time as Helm and the API server write it.

    A wait that goes on counts from when its release was made, however late a test runs.
    """
    return datetime.now(UTC).isoformat()


class Api:
    """An API server as far as an action and a watch need one: objects, with their versions."""

    server = "https://cluster.test"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, ...], Json] = {}
        self.requests: list[str] = []
        self.finalizing: set[str] = set()
        self.forbidden: set[str] = set()
        self.denied: set[str] = set()
        self.ending: set[str] = set()
        self.accountless: set[str] = set()
        self.pruned: dict[str, Json] = {}
        self.writers: dict[str, tuple[str, str]] = {}
        self.version = 100

    def impersonating(self, user: str, **_: Any) -> "Api":
        self.user = user
        return self

    @property
    def mapper(self) -> "Api":
        return self

    async def resource(self, _: Any) -> None:
        """Serve every kind."""

    async def get(self, gvk: Any, name: str, namespace: str = "", **_: Any) -> Json:
        """Answer that every account exists, what finalizers hold, and who wrote a record.

        Some may not be read.
        """
        if name in self.forbidden:
            raise ForbiddenError(f"{gvk.kind} {name} is forbidden")
        if name.startswith("sh.helm.release."):
            manager, time = self.writers.get(name, (RECORDER, now()))
            wrote: Json = {"f:data": {"f:release": {}}}
            entry = {"manager": manager, "time": time, "fieldsV1": wrote}
            return {"metadata": {"name": name, "managedFields": [entry]}}
        if name in self.pruned:
            return self.pruned[name]
        missing = name in self.accountless
        if missing or (gvk.kind != "ServiceAccount" and name not in self.finalizing):
            raise NotFoundError(f"{gvk.kind} {name}")
        return {"metadata": {"name": name, "namespace": namespace}}

    async def list(self, gvk: Any, *, field_selector: str) -> list[Json]:
        """Return a namespace."""
        assert gvk.kind == "Namespace"
        name = field_selector.removeprefix("metadata.name=")
        metadata = {"name": name, **({"deletionTimestamp": now()} if name in self.ending else {})}
        return [{"metadata": metadata}]

    async def delete(
        self, gvk: Any, name: str, namespace: str = "", *, dry_run: bool = False, uid: str = ""
    ) -> Json:
        """Refuse to delete some objects, as an admission webhook does."""
        if uid:
            if name in self.denied:
                raise ForbiddenError(f"{gvk.kind} {name} is forbidden")
            self.requests.append(f"prune {gvk.kind} {namespace}/{name}")
            return self.pruned.pop(name) and {}
        assert dry_run, "Helm deletes objects"
        self.requests.append(f"rehearse {gvk.kind} {namespace}/{name}")
        if name in self.denied:
            raise ForbiddenError(f'admission webhook "provenance" denied the request: {name}')
        return {}

    async def apply(self, obj: Json, *, manager: str) -> Applied:
        """Create an object for a controller."""
        self.requests.append(f"apply {obj['kind']} {manager}")
        return Applied(object=obj, created=True)

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """Keep what is written, and answer with it."""
        del headers
        self.requests.append(f"{method} {target}")
        answer = self._answer(method, json.loads(body))

        async def chunks() -> AsyncIterator[bytes]:
            yield json.dumps(answer).encode()

        yield 200, {}, chunks()

    def _answer(self, method: str, obj: Json) -> Json:
        if method == "GET":
            return {"items": []}
        ref = ref_of(obj)
        if method == "DELETE":
            self.objects.pop(ref.identity, None)
            held = ref.name in self.finalizing
            obj["metadata"]["deletionTimestamp"] = now()
            return obj if held else {"kind": "Status", "status": "Success"}
        self.version += 1
        entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {}, "time": now()}
        written = {"resourceVersion": str(self.version), "managedFields": [entry]}
        kept = {**obj, "metadata": {**obj["metadata"], **written}}
        self.objects[ref.identity] = kept
        return kept


@dataclass
class Failure:
    """How an action fails; ``recorded`` if it leaves a record."""

    message: str = "it broke"
    recorded: bool = True
    code: str = "Failed"


@dataclass
class Helm:
    """Releases by namespace and name, oldest record first."""

    chart: Chart = field(default_factory=lambda: Chart(name="shop", version="1.0.0"))
    releases: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    kinds: tuple[tuple[str, str, str], ...] = (("apps/v1", "Deployment", "web"),)
    fields: Json = field(default_factory=dict)
    begins: str = ""
    unchecked: tuple[str, ...] = ()
    written: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    route: Callable[[str, Json], tuple[str, dict[str, str]]] = lambda method, obj: (
        f"/{method}/{key_of(obj)}",
        {},
    )

    @property
    def done(self) -> list[str]:
        """Return which actions ran, but for looks."""
        return [each.action for each in self.orders if each.action not in {"history", "load"}]

    @property
    def reads(self) -> int:
        """Return how often storage was read."""
        return sum(each.action == "history" for each in self.orders)

    def newest(self, name: str = "app", namespace: str = "team") -> Record:
        """Return the newest record of a release."""
        return self.releases[namespace, name][-1]

    def leave_pending(self, name: str = "app", namespace: str = "team") -> None:
        """Have the newest record be of an action that was never finished."""
        kept = self.releases[namespace, name]
        kept[-1] = self._as(kept[-1], "pending-upgrade")

    async def run(self, release: Release, order: Order) -> Outcome:
        """Run an action (``controllers.helm.running.engine.Run``)."""
        self.orders.append(order)
        if order.action == "load":
            return Outcome(chart=self.chart)
        kept = self.releases.setdefault((release.storage_namespace, release.name), [])
        before = {each.version: each for each in kept}
        failure = self.failures.get(order.action)
        if failure is None or failure.recorded:
            await self._act(release, order, kept, failure)
        if not kept:
            del self.releases[release.storage_namespace, release.name]
        changed = [each for each in kept if before.get(each.version) != each]
        if order.action == "history":
            changed = kept
        elif order.action == "uninstall" and (failure is None or failure.recorded):
            changed = [self._as(each, "uninstalled") for each in before.values()][-1:]
        objects = self._objects(release, order)
        if order.action == "history":
            objects = self.written.get((release.storage_namespace, release.name), objects)
        outcome = Outcome(
            records=tuple(reversed(changed)),
            objects=tuple(objects),
            log=("a line of Helm's",),
            unchecked=self.unchecked,
        )
        if failure is not None and failure.code == "died":
            raise WorkerDiedError(failure.message)
        if failure is not None:
            raise EngineError(failure.message, code=failure.code, outcome=outcome)
        return outcome

    async def _act(
        self, release: Release, order: Order, kept: list[Record], failure: Failure | None
    ) -> None:
        status = "failed" if failure else "deployed"
        match order.action:
            case "install" | "upgrade" | "rollback":
                await self._write(release, order)
                config = kept[-2].config if order.action == "rollback" and len(kept) > 1 else None
                old = [e for e in kept if e.version == order.options.get("version")]
                chart = old[0].chart.metadata if old else None
                self._supersede(kept)
                kept.append(self._made(release, order, len(kept) + 1, status, config, chart))
            case "unlock" if self.begins:
                # Somebody else's action begins at this moment.
                kept[-1] = self._as(kept[-1], "failed")
                kept.append(self._made(release, order, len(kept) + 1, self.begins, None, None))
            case "fail" | "unlock":
                kept[-1] = self._as(kept[-1], "failed")
            case "test":
                kept[-1] = self._tested(kept[-1])
            case "uninstall":
                if not kept:
                    raise EngineError("release: not found", code="ReleaseNotFound")
                for obj in self._objects(release, order):
                    await self._send(release.acting, "DELETE", obj)
                if order.options.get("keepHistory"):
                    kept[-1] = self._as(kept[-1], "uninstalled")
                else:
                    kept.clear()

    def _made(  # noqa: PLR0917 - what a record consists of
        self,
        release: Release,
        order: Order,
        version: int,
        status: str,
        config: Any,
        chart: Any,
    ) -> Record:
        named = order.options.get("chartVersion", self.chart.version)
        metadata = chart or msgspec.Raw(
            msgspec.json.encode({"name": self.chart.name, "version": named})
        )
        return record.decode(
            msgspec.json.encode(
                {
                    "name": release.name,
                    "namespace": release.namespace,
                    "version": version,
                    "info": {"status": status, "first_deployed": now(), "last_deployed": now()},
                    "chart": {"metadata": metadata},
                    "config": config if config is not None else dict(order.values),
                    "manifest": f"# {version}\n",
                    "hooks": [
                        {"name": name, "kind": "Pod", "events": ["test"]} for name in self.tests
                    ],
                }
            )
        )

    def _tested(self, found: Record) -> Record:
        hooks = tuple(
            msgspec.structs.replace(
                hook, last_run=record.Run(started_at=now(), phase=self.tests[hook.name])
            )
            for hook in found.hooks
        )
        return msgspec.structs.replace(found, hooks=hooks)

    def _supersede(self, kept: list[Record]) -> None:
        for number, each in enumerate(kept):
            if each.info.status == "deployed":
                kept[number] = self._as(each, "superseded")

    def _as(self, found: Record, status: str) -> Record:
        info = msgspec.structs.replace(found.info, status=status)
        return msgspec.structs.replace(found, info=info)

    def _objects(self, release: Release, order: Order) -> list[Json]:
        labels = dict((order.options.get("commonMetadata") or {}).get("labels") or {})
        labels = labels or {
            "helm.toolkit.fluxcd.io/name": "app",
            "helm.toolkit.fluxcd.io/namespace": release.storage_namespace,
        }
        return [
            {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": name, "namespace": release.namespace, "labels": labels},
                **self.fields,
            }
            for version, kind, name in self.kinds
        ]

    async def _write(self, release: Release, order: Order) -> None:
        objects = self._objects(release, order)
        self.written[release.storage_namespace, release.name] = objects
        for obj in objects:
            await self._send(release.acting, "PATCH", as_helm_sends(obj, release))

    async def _send(self, client: Any, method: str, obj: Json) -> None:
        path, headers = self.route(method, obj)
        body = json.dumps(obj).encode()
        async with client.exchange(method, path, headers=headers, body=body) as (
            status,
            _,
            chunks,
        ):
            answer = b"".join([chunk async for chunk in chunks])
            # As Helm, which takes an object that does not exist for deleted.
            assert status < 300 or (method, status) == ("DELETE", 404), answer


def as_helm_sends(obj: Json, release: Release) -> Json:
    """Return the object with the marks that Helm adds."""
    metadata = obj["metadata"]
    return obj | {
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {
                "meta.helm.sh/release-name": release.name,
                "meta.helm.sh/release-namespace": release.namespace,
            },
        }
    }


def web(namespace: str = "team") -> ObjectRef:
    """Return the object that releases hold, unless the test says otherwise."""
    return ref_of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
        }
    )
