"""The webhook process with plugins of the test, asked by a real API server.

It runs in the test's event loop, under its own service account with the generated RBAC, in a
namespace of its own. There is one set of webhook configurations in a cluster, so one gate at a
time: the tests of a module share it, each in a namespace of its own (``Gate.beside``), unless they
are about how a process starts and ends.
"""

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
import pytest_asyncio
from aiohttp.test_utils import make_mocked_request

from certs import injection
from controlplane.plane import ControlPlane
from crds import KINDS
from tests.contract.webhooks import configured
from tests.contract.webhooks.configured import Configured
from tests.contract.webhooks.tenants import Tenant
from tests.fakes.serving import free_port
from tests.tools import namespaces, rights, sockets, waiting
from tests.tools.installation import moved
from tests.tools.kubectl import Kubectl
from toolkit.errors import PenstockError
from toolkit.kube import config, impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, Json, dig
from webhooks import arming, component, configuration, definitions
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

_READY = make_mocked_request("GET", "/readyz")
"""What a kubelet asks again and again."""
Review = Callable[[Request], Awaitable[Answer]]

LABEL = "tests.penstock.dev/gate"
"""Which gate is asked about a namespace: the one installed in the namespace of this name."""

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
    probed: bool = False

    async def review(self, request: Request) -> Answer:
        if request.name == "probe":
            self.probed = True
            return Answer()
        if request.name == "kube-root-ca.crt":  # which controllers write in every new namespace
            return Answer()
        self.asked.append(request)
        return await self.behave(request)


class Probed(Protocol):
    """A plugin that notes that it was asked about an object of the name ``probe``."""

    probed: bool


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
    """The webhooks in front of one namespace, and the namespace that their process is in."""

    control_plane: ControlPlane
    installed: str
    namespace: str
    admin: Client
    port: int
    replicas: list[Replica] = field(default_factory=list)
    _made: list[str] = field(default_factory=list)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def target(self) -> configuration.Target:
        return configuration.Target(namespace=self.installed, url=f"https://127.0.0.1:{self.port}")

    @property
    def selector(self) -> Json:
        """Select the namespaces of this gate."""
        return {"matchLabels": {LABEL: self.installed}}

    @property
    def kubectl(self) -> Kubectl:
        """Return kubectl of the administrator in the namespace."""
        return Kubectl(plane=self.control_plane, namespace=self.namespace)

    async def beside(self, name: str = "", **labels: str) -> "Gate":
        """Return this gate in front of another namespace, which is new."""
        name = await namespaces.create(self.admin, name, **{LABEL: self.installed}, **labels)
        self._made.append(name)
        return dataclasses.replace(self, namespace=name)

    def row(self, name: str, behave: Review = yes, **more: Any) -> tuple[Row, Recorder]:
        """Make a plugin that is asked about ConfigMaps of the gate's namespaces."""
        recorder = Recorder(behave)

        def make(_: Services) -> Recorder:
            return recorder

        usual = {"rules": CONFIG_MAPS, "namespace_selector": self.selector, "everywhere": True}
        return Row(**{"name": name, "make": make, **usual, **more}), recorder

    async def start(self, *rows: Row, **options: Any) -> Replica:
        """Run a process with these plugins."""
        settings = Options(
            **{
                "runtime_namespace": self.installed,
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
        token = await self._token()
        path = self.control_plane.kubeconfig_for(f"webhook-{self.installed}", token=token)
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

    @contextlib.asynccontextmanager
    async def away(self, *rows: Row) -> AsyncIterator[None]:
        """End the process for as long as the block, which others of the module come after."""
        try:
            while self.replicas:
                await self.replicas.pop().stop()
            yield
        finally:
            replica = await self.start(*rows)
            await replica.ready()

    async def _token(self) -> str:
        path = f"/api/v1/namespaces/{self.installed}/serviceaccounts/{configuration.NAME}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str((await self.admin.request("POST", path, body=body))["status"]["token"])

    async def grant(self, *rows: Row) -> None:
        """Install the account and the rights that these plugins need."""
        rights_ = configuration.render(rows)["rbac.yaml"], configuration.render_added(rows)
        objects = moved("---\n".join(rights_), self.installed)
        for obj in objects:
            await self.admin.apply(obj, manager="test")
        account = impersonation.service_account(self.installed, configuration.NAME)
        for obj in objects:
            namespace = dig(obj, "metadata", "namespace", default="")
            for rule in obj.get("rules", ())[:1]:
                await rights.noticed(self.admin, account, rule, namespace=namespace)

    async def asked(self, *recorders: Probed) -> None:
        """Wait until the API server asks these plugins."""
        for recorder in recorders:
            recorder.probed = False

        async def probe() -> bool:
            with contextlib.suppress(PenstockError):
                await self.write(self.config_map("probe"), dry_run=True)
            return all(recorder.probed for recorder in recorders)

        await self.until(probe)

    async def converting(self) -> None:
        """Wait until our kinds are converted; they are away for a moment while that changes."""
        names = {kind.crd_name for kind in KINDS if kind.converted}

        async def armed() -> bool:
            found = await self.admin.list(injection.DEFINITION)
            ours = [each["spec"] for each in found if each["metadata"]["name"] in names]
            return all(dig(spec, "conversion", "strategy") == "Webhook" for spec in ours)

        await self.until(armed)

    async def write(self, obj: Json, *, dry_run: bool = False) -> Json:
        """Create a ConfigMap, or apply it if it exists."""
        applied = await self.admin.apply(obj, manager="test", dry_run=dry_run)
        return applied.object

    def config_map(self, name: str, **data: str) -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    async def apply(self, obj: Json, *, flags: Sequence[str] = ()) -> str:
        """``kubectl apply`` an object, and return what kubectl says; it must succeed."""
        return await self.kubectl.run("apply", *flags, obj=obj)

    async def refused(self, obj: Json, *, flags: Sequence[str] = ()) -> str:
        """``kubectl apply`` an object, and return what kubectl says; it must fail."""
        return await self.kubectl.refused("apply", *flags, obj=obj)

    async def until(self, check: Callable[[], Awaitable[Any]]) -> Any:
        """Return the first answer of ``check`` that counts; no process may end meanwhile."""
        return await waiting.until(check, beside=(replica.task for replica in self.replicas))

    async def close(self) -> None:
        """End what runs, have the API server ask nobody, leave no work to controllers."""
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
            await self._swept()
            await sockets.closed(self.port)

    async def _swept(self) -> None:
        """Delete what controllers of tests that come later would reconcile."""
        for kind in KINDS:
            gvk = GroupVersionKind(*kind.gvk)
            try:
                left = await self.admin.list(gvk)
            except (NoMatchError, NotFoundError):
                return  # no test before this one needed our kinds
            for each in left:
                namespace = dig(each, "metadata", "namespace", default="")
                if namespace in self._made:
                    await _deleted(self.admin, gvk, each["metadata"]["name"], namespace)


async def _deleted(admin: Client, gvk: GroupVersionKind, name: str, namespace: str) -> None:
    free = {"metadata": {"finalizers": None}}
    with contextlib.suppress(NotFoundError):
        await admin.patch(gvk, name, namespace, free, strategy="merge")
        await admin.delete(gvk, name, namespace)


@contextlib.asynccontextmanager
async def opened(control_plane: ControlPlane) -> AsyncIterator[Gate]:
    """Make a gate in a new namespace, and close it in the end; no process runs yet."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as admin:
        name = f"gate-{secrets.token_hex(4)}"
        await namespaces.create(admin, name, **{LABEL: name})
        gate = Gate(control_plane, name, name, admin, port=free_port(), _made=[name])
        try:
            yield gate
        finally:
            await gate.close()


@pytest_asyncio.fixture
async def gate(control_plane: ControlPlane) -> AsyncIterator[Gate]:
    """Make a gate for one test, in front of its own namespace; no process runs yet."""
    async with opened(control_plane) as made:
        yield made


@pytest.fixture(scope="module")
def configured_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """Run a control plane whose API server shows a certificate to webhooks and keeps an audit."""
    with configured.start(tmp_path_factory.mktemp("configured")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    """Have the plugins asked that keep tenants apart, for all tests of a module."""
    del definitions
    async with opened(control_plane) as made:
        await Tenant(made, (await made.beside()).namespace).open()
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(tenants: Gate) -> AsyncIterator[Tenant]:
    """Give a test a namespace beside that of the installation."""
    beside = await tenants.beside()
    opened = Tenant(tenants, beside.namespace)
    try:
        yield opened
    finally:
        await opened.close()
