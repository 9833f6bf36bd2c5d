"""The aggregated API server behind a real API server.

A ``Window`` has account, RBAC and Service installed in a namespace of its own.
``await window.start()`` runs a process in the test's event loop with a toy resource (``toys``,
short ``ty``: a ``ToyShop``), ``await window.start(*rows)`` with rows of ``apiserver.resources``;
``await window.available()`` waits until the API server finds it. ``window.kubectl(...)`` runs
kubectl as administrator; ``window.ask(path, ...)`` asks our port directly, past the API server,
with whatever certificate and headers.

The API's name is one for the cluster, so only one window is open at a time.
"""

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from apiserver import component, manifests, registration
from apiserver.listener import Listener
from apiserver.registration import API_SERVICE, NAME
from apiserver.resources import Row
from apiserver.status import GROUP
from certs import injection
from controlplane.certificates import Authority, KeyPair
from controlplane.plane import ControlPlane
from tests.fakes.serving import free_port
from tests.fakes.toyshop import API_VERSION, ToyShop
from tests.tools import kubectl, rights, sockets, waiting
from tests.tools.installation import moved
from toolkit.kube import config, mapper
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, Json

BASE = f"/apis/{API_VERSION}"
AS_ROOT = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]
"""What the front proxy says of an administrator."""
_RBAC = "rbac.authorization.k8s.io"


@dataclass
class Replica:
    """One running process."""

    manager: Manager
    listener: Listener
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self.manager.stop()
        await asyncio.wait_for(self.task, 30)


@dataclass(frozen=True)
class Reply:
    """What our port answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        found: Json = msgspec.json.decode(self.body)
        return found


@dataclass
class Window:
    """The API server in front of us, and a namespace to test in."""

    control_plane: ControlPlane
    home: str
    """Namespace of the account, the Service, the lease and the certificates."""
    namespace: str
    admin: Client
    port: int
    directory: Path
    shop: ToyShop = field(default_factory=ToyShop)
    replicas: list[Replica] = field(default_factory=list)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _clients: dict[tuple[str, tuple[str, ...]], KeyPair] = field(default_factory=dict)

    async def start(self, *rows: Row, **options: Any) -> Replica:
        """Run a process that serves these rows, and return when it listens."""
        settings = Options(
            **{
                "runtime_namespace": self.home,
                "secure_addr": f"127.0.0.1:{self.port}",
                "apiservice_port": self.port,
                "metrics_addr": "0",
                "health_addr": "0",
                "graceful_shutdown_timeout": 5.0,
                "shutdown_delay_duration": 0.0,
                **options,
            }
        )
        if not rows:
            rows = (self.shop.row,)
            self.shop.view.complete()
        client = Client.open(config.from_environment(str(await self.kubeconfig())))
        await self._open.enter_async_context(client)
        manager = Manager(settings, client)
        await self._open.enter_async_context(manager.until_end)
        listener = component.start(manager, settings, rows=rows)
        replica = Replica(manager, listener, asyncio.create_task(manager.run()))
        self.replicas.append(replica)
        listening = asyncio.create_task(listener.wait_synced())
        await asyncio.wait(
            {listening, replica.task}, timeout=30, return_when=asyncio.FIRST_COMPLETED
        )
        self.raise_failures()
        assert listening.done(), "it does not listen"
        await self.until(self._trusting)
        return replica

    async def _trusting(self) -> bool:
        """Tell whether those who answer know whom to trust; they listen before that.

        Replicas share the port, so each is asked where it keeps that.
        """
        return all(replica.listener._server._trust() for replica in self.replicas)

    async def install(self) -> None:
        """Install the account, its rights, and a Service that is but a name for this machine."""
        for obj in moved(manifests.render()["rbac.yaml"], self.home):
            await self.admin.apply(obj, manager="test")
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": self.home},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        await self.admin.apply(service, manager="test")

    async def available(self) -> Json:
        """Wait until the API server reaches us and knows our kinds, and return the APIService."""

        async def look() -> Json | None:
            with contextlib.suppress(NotFoundError):
                found = await self.admin.get(injection.API_SERVICE, API_SERVICE)
                if registration.is_available(found):
                    return found
            return None

        found: Json = await self.until(look)
        await self.until(self._discovered)
        return found

    async def _discovered(self) -> bool:
        """Tell whether the API server lists what we serve, which it asks for by and by."""
        raw = await self.admin.read("/apis", query={}, accept=mapper.ACCEPT)
        versions = [
            version
            for group in msgspec.json.decode(raw)["items"]
            for version in group["versions"]
            if group["metadata"]["name"] == GROUP
        ]
        fresh = bool(versions) and all(each.get("freshness") == "Current" for each in versions)
        return fresh and await self._served() == {
            row["resource"] for version in versions for row in version.get("resources", ())
        }

    async def _served(self) -> set[str]:
        root = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]
        reply = await self.ask(BASE, certificate=self.front_proxy(), headers=root)
        return {row["name"] for row in reply.json["resources"] if "/" not in row["name"]}

    async def grant(self, user: str, *rules: Json, namespace: str = "") -> None:
        """Let a user do something, in one namespace or everywhere; return when RBAC knows it."""
        kind, name = ("Role" if namespace else "ClusterRole"), f"test-{user}-{self.namespace}"
        where = {"namespace": namespace} if namespace else {}
        metadata = {"name": name, **where}
        role = {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}
        await self.admin.apply(role | {"rules": list(rules)}, manager="test")
        binding = {"apiVersion": f"{_RBAC}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        subject = {"apiGroup": _RBAC, "kind": "User", "name": user}
        ref = {"apiGroup": _RBAC, "kind": kind, "name": name}
        await self.admin.apply(binding | {"roleRef": ref, "subjects": [subject]}, manager="test")
        await rights.noticed(self.admin, user, *rules, namespace=namespace)
        if not namespace:
            for each in (f"{kind}Binding", kind):
                gvk = GroupVersionKind(_RBAC, "v1", each)
                self._open.push_async_callback(self._forget, gvk, name)

    async def token(self, account: str, namespace: str) -> str:
        """Return a token of a service account."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str((await self.admin.request("POST", path, body=asked))["status"]["token"])

    async def kubeconfig(self, name: str = NAME) -> Path:
        """Write a kubeconfig of the process's account; ``name`` is a part of the file's."""
        token = await self.token(NAME, self.home)
        return self.control_plane.kubeconfig_for(f"{name}-{self.home}", token=token)

    async def kubectl(self, *arguments: str) -> str:
        """Run kubectl as administrator in the namespace; it must succeed."""
        return await kubectl.run(self.control_plane, *arguments, self._inside)

    async def refused(self, *arguments: str) -> str:
        """Return why kubectl fails as administrator in the namespace, which it must."""
        return await kubectl.refused(self.control_plane, *arguments, self._inside)

    async def answer(self, *arguments: str) -> str:
        """Run kubectl for a test that waits until a failure becomes an answer."""
        return await kubectl.answer(self.control_plane, *arguments, self._inside)

    @property
    def _inside(self) -> str:
        return f"--namespace={self.namespace}"

    async def sweep(self, *kinds: GroupVersionKind) -> None:
        """Delete the namespace's objects of these kinds: controllers of others would see them."""
        for gvk in kinds:
            resource = await self.admin.mapper.resource(gvk)
            await self.admin.request("DELETE", resource.path(namespace=self.namespace))

    def client_of(self, user: str, *, groups: tuple[str, ...] = ()) -> KeyPair:
        """Return a certificate of the cluster's own authority of clients."""
        if (user, groups) not in self._clients:
            self._clients[user, groups] = self._issued(user, groups)
        return self._clients[user, groups]

    def _issued(self, user: str, groups: tuple[str, ...]) -> KeyPair:
        pki = self.control_plane.directory / "pki"
        pair = KeyPair(certificate=(pki / "ca.crt").read_bytes(), key=(pki / "ca.key").read_bytes())
        return Authority.load(pair).client(user, groups=groups)

    def front_proxy(self) -> KeyPair:
        """Return the certificate that the API server comes with."""
        pki = self.control_plane.directory / "pki"
        return KeyPair(
            certificate=(pki / "front-proxy-client.crt").read_bytes(),
            key=(pki / "front-proxy-client.key").read_bytes(),
        )

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        certificate: KeyPair | None = None,
        headers: Any = (),
        body: bytes | None = None,
    ) -> Reply:
        """Ask our port directly; a handshake that fails raises ``aiohttp.ClientError``."""
        connector = aiohttp.TCPConnector(ssl=self._tls(certificate), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(
                method, f"https://127.0.0.1:{self.port}{path}", headers=headers, data=body
            ) as response,
        ):
            return Reply(response.status, dict(response.headers), await response.read())

    def _tls(self, certificate: KeyPair | None) -> ssl.SSLContext:
        # What clients make of our certificate is tested where the API server is one.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if certificate:
            name = f"client-{secrets.token_hex(4)}"
            certificate.write(self.directory, name)
            tls.load_cert_chain(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        return tls

    async def until(self, check: Callable[[], Any]) -> Any:
        """Return the first answer of ``check`` that counts; no process may end meanwhile."""
        return await waiting.until(check, beside=(replica.task for replica in self.replicas))

    def raise_failures(self) -> None:
        """Fail with the error of a process that ended by itself."""
        waiting.raise_failures(replica.task for replica in self.replicas)

    async def close(self) -> None:
        """End what runs, and have the API server ask nobody."""
        async with self._open:
            for replica in self.replicas:
                replica.manager.stop()
            await registration.unregister(self.admin)
            tasks = [replica.task for replica in self.replicas]
            await asyncio.wait_for(asyncio.gather(*tasks), 30)
            await registration.unregister(self.admin)
            for obj in yaml.safe_load_all(manifests.render()["rbac.yaml"]):
                if obj["kind"].startswith("ClusterRole"):
                    gvk = GroupVersionKind(_RBAC, "v1", obj["kind"])
                    await self._forget(gvk, obj["metadata"]["name"])
            await sockets.closed(self.port)

    async def _forget(self, gvk: GroupVersionKind, name: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self.admin.delete(gvk, name)


async def make_namespace(admin: Client, name: str) -> str:
    """Make a namespace."""
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@contextlib.asynccontextmanager
async def opened(
    control_plane: ControlPlane, admin: Client, home: str, directory: Path
) -> AsyncIterator[Window]:
    """Install a window in a namespace, and take away in the end what others would see."""
    made = Window(control_plane, home, home, admin, port=free_port(), directory=directory)
    await made.install()
    try:
        yield made
    finally:
        await made.close()
