"""A release for one test, and charts to make it of."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes import charts
from tests.tools import rights
from tests.tools.administrator import Administrator, RefusedError
from tests.tools.waiting import until
from toolkit.helm import actions
from toolkit.helm.actions import Action, Order, Outcome, Release
from toolkit.helm.gates import Exchanging, Response
from toolkit.kube.client import Client
from toolkit.native.calls import EngineError
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.release.record import Record

MANAGER: Final = "helm-controller"
APPLIER: Final = "system:serviceaccount:penstock-system:helm-applier"
WRITES: Final[Json] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}

CONFIG_MAP: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ .Values.colour | quote }}
"""


@dataclass(kw_only=True)
class World:
    """Runs actions on a release named ``app``, as administrator unless the test says otherwise."""

    pool: WorkerPool
    api: Client
    namespace: str
    administrator: Administrator
    directory: Path
    acting: Exchanging | None = None
    keeping: Exchanging | None = None
    storage_namespace: str = ""
    cluster: str = "contract"
    charts: int = 0

    @property
    def release(self) -> Release:
        """Return the release, as the engine is told of it."""
        return Release(
            cluster=self.cluster,
            name="app",
            namespace=self.namespace,
            storage_namespace=self.storage_namespace or self.namespace,
            acting=self.acting or self.api,
            keeping=self.keeping or self.api,
            flow="team",
        )

    def with_(self, **changes: Any) -> "World":
        """Return the world with other identities or namespaces."""
        return replace(self, **changes)

    def chart(self, version: str = "1.0.0", **files: str) -> Path:
        """Write a chart with one ConfigMap; see ``tests.fakes.charts.chart``."""
        content = {
            "values_yaml": "colour: red\n",
            "templates__configmap_yaml": CONFIG_MAP,
        } | files
        self.charts += 1
        written = charts.chart("shop", version, **content)
        return charts.write(self.directory / f"chart-{self.charts}", written)

    async def run(
        self,
        action: Action,
        chart: Path | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        timeout: float = 60,  # noqa: ASYNC109 - it is the action's
        secrets: Sequence[str] = (),
        rendering: float = actions.RENDER_SECONDS,
        **options: Any,
    ) -> Outcome:
        """Run an action; options are those of the engine."""
        order = Order(
            action=action,
            timeout=timeout,
            manager=MANAGER,
            chart=chart,
            values=values or {},
            options=options,
            secrets=secrets,
            rendering=rendering,
        )
        return await actions.run(self.pool, self.release, order)

    async def fails(self, action: Action, chart: Path | None = None, **given: Any) -> EngineError:
        """Run an action that must fail, and return how."""
        with pytest.raises(EngineError) as caught:
            await self.run(action, chart, **given)
        return caught.value

    async def history(self) -> list[tuple[int, str]]:
        """Return version and status of each record, newest first."""
        return [brief(each) for each in (await self.run("history")).records]

    def get(self, path: str, namespace: str = "") -> Json | None:
        """Return an object of the namespace by its path: ``api/v1 configmaps/app``."""
        prefix, _, name = path.partition(" ")
        try:
            where = f"/{prefix}/namespaces/{namespace or self.namespace}/{name}"
            return self.administrator.send("GET", where)
        except RefusedError as exc:
            if exc.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def config_map(self, name: str = "app") -> Json | None:
        """Return a ConfigMap of the namespace."""
        return self.get(f"api/v1 configmaps/{name}")

    def colour(self) -> Any:
        """Return what the release's ConfigMap holds."""
        found = self.config_map()
        return found and found["data"]["colour"]

    async def ends(self, pod: str, phase: str) -> None:
        """End a Pod once the stand-in for a kubelet has it running, which never ends one."""

        def runs() -> bool:
            found = self.get(f"api/v1 pods/{pod}")
            return found is not None and found.get("status", {}).get("phase") == "Running"

        await until(runs)
        where = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status"
        body: Json = {"status": {"phase": phase}}
        self.administrator.send("PATCH", where, body, content="application/merge-patch+json")

    def make(self, path: str, body: Json) -> Json:
        """Create an object: ``api/v1 configmaps`` in the namespace, or a path from the root."""
        prefix, _, plural = path.partition(" ")
        where = f"/{prefix}/namespaces/{self.namespace}/{plural}" if plural else f"/{prefix}"
        return self.administrator.send("POST", where, body)

    async def let_apply(self) -> None:
        """Make the account that passes act as by default admin of the namespace."""
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": "applier"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "helm-applier", "namespace": "penstock-system"}
            ],
        }
        self.make(f"apis/{group}/v1 rolebindings", binding)
        await rights.noticed(self.api, APPLIER, WRITES, namespace=self.namespace)


@dataclass
class Refusing:
    """An identity some of whose requests the API server refuses."""

    client: Exchanging
    method: str
    part: str
    status: int = 503
    seen: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        self.seen.append(f"{method} {target}")
        if method == self.method and self.part in target:
            yield self.status, {"Content-Type": "application/json"}, _refusal(self.status)
            return
        async with self.client.exchange(method, target, headers=headers, body=body) as answer:
            yield answer


async def _refusal(status: int) -> AsyncIterator[bytes]:
    yield (
        b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable",'
        b'"message":"the server is shutting down","code":%d}' % status
    )


@dataclass
class Noting:
    """A client that notes what it is asked."""

    client: Exchanging
    asked: list[str] = field(default_factory=list)

    def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Response]:
        self.asked.append(f"{method} {target.partition('?')[0].rpartition('/')[2]}")
        return self.client.exchange(method, target, headers=headers, body=body)


def brief(found: Record) -> tuple[int, str]:
    """Return version and status."""
    return found.version, found.info.status


def statuses(outcome: Outcome) -> list[tuple[int, str]]:
    """Return versions and statuses of the records that an action made or changed."""
    return [brief(each) for each in outcome.records]


def hook(name: str, *events: str, policy: str = "", kind: str = "ConfigMap") -> str:
    """Return the template of a hook that is done as soon as it is there, or of a Job or Pod."""
    notes = {"helm.sh/hook": ",".join(events)}
    if policy:
        notes["helm.sh/hook-delete-policy"] = policy
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    forms: Mapping[str, Json] = {
        "ConfigMap": {"apiVersion": "v1"},
        "Job": {"apiVersion": "batch/v1", "spec": {"template": {"spec": pod}}},
        "Pod": {"apiVersion": "v1", "spec": pod},
    }
    return json.dumps(
        {"kind": kind, "metadata": {"name": name, "annotations": notes}, **forms[kind]}
    )
