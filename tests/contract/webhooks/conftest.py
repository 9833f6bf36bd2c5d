"""The webhook process with plugins of the test, asked by a real API server.

It runs in the test's event loop, under its own service account with the generated RBAC, in the
namespace of the test. kubectl runs in a thread meanwhile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
import yaml
from aiohttp.test_utils import make_mocked_request

from controlplane.plane import ControlPlane
from crds import KINDS
from tests.contract.webhooks.tenants import Tenant
from tests.fakes.serving import free_port
from tests.tools import kubectl, namespaces, sockets, waiting
from tests.tools.installation import moved
from toolkit.errors import PenstockError
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, Json
from webhooks import arming, component, configuration, definitions
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

_READY = make_mocked_request("GET", "/readyz")
"""What a kubelet asks again and again."""
Review = Callable[[Request], Awaitable[Answer]]

CONFIG_MAPS = (
    Rule(
        groups=("",),
        versions=("v1",),
        resources=("configmaps",),
        operations=("CREATE", "UPDATE", "DELETE"),
    ),
)


async def yes(_: Request) -> Answer:
    return Answer()


@dataclass
class Recorder:
    """A plugin that does what the test says, and remembers what it was asked."""

    behave: Review
    asked: list[Request] = field(default_factory=list)

    async def review(self, request: Request) -> Answer:
        self.asked.append(request)
        if request.name == "probe":
            return Answer()
        return await self.behave(request)


@dataclass
class Replica:
    """One running webhook process."""

    manager: Manager
    task: asyncio.Task[None]

    async def ready(self) -> None:
        """Wait until it listens."""

        async def listens() -> bool:
            return (await self.manager._ready(_READY)).status == 200

        await waiting.until(listens)

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self.manager.stop()
        await asyncio.wait_for(self.task, 30)


@dataclass
class Gate:
    """The webhooks in front of one namespace."""

    control_plane: ControlPlane
    namespace: str
    admin: Client
    port: int
    replicas: list[Replica] = field(default_factory=list)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def target(self) -> configuration.Target:
        return configuration.Target(namespace=self.namespace, url=f"https://127.0.0.1:{self.port}")

    def row(self, name: str, behave: Review = yes, **more: Any) -> tuple[Row, Recorder]:
        """Make a plugin that is asked about ConfigMaps of the test's namespace."""
        recorder = Recorder(behave)

        def make(_: Services) -> Recorder:
            return recorder

        mine = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        usual = {"rules": CONFIG_MAPS, "namespace_selector": mine, "everywhere": True}
        return Row(**{"name": name, "make": make, **usual, **more}), recorder

    async def start(self, *rows: Row, **options: Any) -> Replica:
        """Run a process with these plugins."""
        settings = Options(
            **{
                "runtime_namespace": self.namespace,
                "webhook_addr": f"127.0.0.1:{self.port}",
                "webhook_url": self.target.url,
                "webhook_client_networks": ("127.0.0.0/8",),
                "metrics_addr": "0",
                "health_addr": "0",
                "graceful_shutdown_timeout": 5.0,
                **options,
            }
        )
        await self.grant(*rows)
        token = await asyncio.to_thread(self.control_plane.token, self.namespace, "webhook")
        path = self.control_plane.kubeconfig_for(f"webhook-{self.namespace}", token=token)
        client = Client.open(config.from_environment(str(path)))
        await self._open.enter_async_context(client)
        manager = Manager(settings, client)
        await self._open.enter_async_context(manager.until_end)
        await component.start(manager, settings, rows=rows)
        replica = Replica(manager, asyncio.create_task(manager.run()))
        self.replicas.append(replica)
        return replica

    async def serve(self, name: str = "gate", behave: Review = yes, **more: Any) -> Replica:
        """Run a process with one plugin, and wait until the API server asks it."""
        row, seen = self.row(name, behave, **more)
        replica = await self.start(row)
        await self.asked(seen)
        return replica

    async def grant(self, *rows: Row) -> None:
        """Install the account and the rights that these plugins need."""
        rights = configuration.render(rows)["rbac.yaml"], configuration.render_added(rows)
        for obj in moved("---\n".join(rights), self.namespace):
            await self.admin.apply(obj, manager="test")

    async def asked(self, *recorders: Recorder) -> None:
        """Wait until the API server asks these plugins, and will not on its own account."""

        async def probe() -> bool:
            with contextlib.suppress(PenstockError):
                await self.write(self.config_map("probe"), dry_run=True)
            return all(recorder.asked for recorder in recorders)

        await self.until(probe)
        await namespaces.inhabited(self.admin, self.namespace)
        for recorder in recorders:
            recorder.asked.clear()

    async def write(self, obj: Json, *, dry_run: bool = False) -> Json:
        """Create a ConfigMap, or apply it if it exists."""
        applied = await self.admin.apply(obj, manager="test", dry_run=dry_run)
        return applied.object

    def config_map(self, name: str, **data: str) -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator in the namespace; a failure is an answer too."""
        line = (*arguments, f"--namespace={self.namespace}")
        return await kubectl.answer(self.control_plane, *line, stdin=stdin)

    async def apply(self, *objects: Json, flags: Sequence[str] = ()) -> str:
        """``kubectl apply`` the objects."""
        text = yaml.safe_dump_all(objects)
        return await self.kubectl("apply", *flags, "-f", "-", stdin=text)

    async def until(self, check: Callable[[], Awaitable[Any]]) -> Any:
        """Return the first answer of ``check`` that counts; no process may end meanwhile."""
        return await waiting.until(check, beside=(replica.task for replica in self.replicas))

    async def close(self) -> None:
        """End what runs, and have the API server ask nobody."""
        async with self._open:
            for replica in self.replicas:
                replica.manager.stop()
            tasks = [replica.task for replica in self.replicas]
            await asyncio.wait_for(asyncio.gather(*tasks), 30)
            await arming.disarm(self.admin)
            await definitions.disarm(self.admin, KINDS)
            for kind in ("ClusterRoleBinding", "ClusterRole"):
                with contextlib.suppress(NotFoundError):
                    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", kind)
                    await self.admin.delete(gvk, configuration.CLUSTER_ROLE)
            await sockets.closed(self.port)


@contextlib.asynccontextmanager
async def opened(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Gate]:
    """Make the gate of a namespace, and close it in the end; no process runs yet."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as admin:
        gate = Gate(control_plane, namespace, admin, port=free_port())
        try:
            yield gate
        finally:
            await gate.close()


@pytest_asyncio.fixture
async def gate(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Gate]:
    """Install the account and its rights; no process runs yet."""
    async with opened(control_plane, namespace) as made:
        await made.grant()
        yield made


@pytest_asyncio.fixture
async def tenant(gate: Gate, definitions: None) -> AsyncIterator[Tenant]:
    del definitions
    opened = Tenant(gate)
    try:
        await opened.open()
        yield opened
    finally:
        await opened.close()
