"""The aggregated API server behind a real API server.

Fixtures:

- ``window``: a ``Window`` in the test's own namespace, with account, RBAC and Service installed; no
  process runs yet. ``await window.start()`` runs one in the test's event loop with a toy resource
  (``toys``, short ``ty``: a ``ToyShop``), ``await window.start(*rows)`` with rows of
  ``apiserver.resources``; ``await window.available()`` waits until the API server finds it.
- ``window.kubectl(...)`` runs kubectl as administrator, ``window.kubectl_as(user, ...)``
  as another user; ``window.ask(path, ...)`` asks our port directly, past the API server, with
  whatever certificate and headers.
- ``informer_program`` follows a resource with client-go.

The API's name is one for the cluster, so only one window is open at a time.
"""

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from apiserver import component, encoding, manifests, registration
from apiserver.call import Call
from apiserver.listener import Listener
from apiserver.registration import API_SERVICE, NAME
from apiserver.resource import Column, Resource, Subresource
from apiserver.resources import Row
from apiserver.status import GROUP
from apiserver.view import View
from certs import injection
from controlplane.certificates import Authority, KeyPair
from controlplane.plane import ControlPlane
from tests.fakes.serving import free_port
from tests.tools import kubectl, programs, rights, sockets, waiting
from tests.tools.installation import moved
from toolkit.kube import config, mapper
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind, Json, ObjectKey

API_VERSION = f"{GROUP}/v1alpha1"
BASE = f"/apis/{API_VERSION}"
_RBAC = "rbac.authorization.k8s.io"
_QUESTIONS = 16


class ToySpec(msgspec.Struct):
    """What a toy is made of."""

    colour: str = ""
    """Colour, as painted."""


class Toy(msgspec.Struct):
    """A thing to play with."""

    spec: ToySpec = msgspec.field(default_factory=ToySpec)
    """What it is made of."""


class ToyReport(msgspec.Struct):
    """What was found out about a toy."""

    user: str = ""
    """Who asked."""


@dataclass
class ToyShop:
    """A resource with objects that the test puts into it."""

    view: View = field(
        default_factory=lambda: View(
            kind="Toy", api_version=API_VERSION, tag=secrets.randbelow(1000)
        )
    )
    revision: int = 1000
    handle: Callable[[Call], Awaitable[web.StreamResponse]] | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def row(self) -> Row:
        return Row(make=lambda _manager, _options: self.resource(), permissions=())

    def put(self, namespace: str, name: str, colour: str = "red") -> None:
        self.revision += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"colour": colour},
        }
        toy = {"apiVersion": API_VERSION, "kind": "Toy", "metadata": metadata}
        self.view.put(toy | {"spec": {"colour": colour}}, revision=self.revision)

    def remove(self, namespace: str, name: str) -> None:
        self.revision += 1
        self.view.remove(ObjectKey(namespace, name), revision=self.revision)

    async def report(self, call: Call) -> web.StreamResponse:
        self.calls.append(call)
        if self.handle:
            return await self.handle(call)
        found = {"kind": "ToyReport", "apiVersion": API_VERSION, "user": call.user.name}
        return await encoding.respond(call, found)

    def resource(self) -> Resource:
        return Resource(
            kind="Toy",
            plural="toys",
            singular="toy",
            short_names=("ty",),
            model=Toy,
            columns=(
                Column(
                    name="Name",
                    cell=lambda toy: str(toy["metadata"]["name"]),
                    format="name",
                    description="Name.",
                ),
                Column(
                    name="Colour",
                    cell=lambda toy: str(toy["spec"]["colour"]),
                    description="Colour.",
                ),
            ),
            fields={"spec.colour": lambda toy: str(toy["spec"]["colour"])},
            view=self.view,
            subresources=(
                Subresource(
                    name="report",
                    kind="ToyReport",
                    verbs=("get", "create"),
                    handle=self.report,
                    model=ToyReport,
                    description="What is known of a toy.",
                ),
            ),
        )


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
    """The API server in front of us."""

    control_plane: ControlPlane
    namespace: str
    admin: Client
    port: int
    directory: Path
    shop: ToyShop = field(default_factory=ToyShop)
    replicas: list[Replica] = field(default_factory=list)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def start(self, *rows: Row, **options: Any) -> Replica:
        """Run a process that serves these rows, and return when it listens."""
        settings = Options(
            **{
                "runtime_namespace": self.namespace,
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
        token = await asyncio.to_thread(self.control_plane.token, self.namespace, NAME)
        path = self.control_plane.kubeconfig_for(f"{NAME}-{self.namespace}", token=token)
        client = Client.open(config.from_environment(str(path)))
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

        Replicas share the port: so many questions reach each of them.
        """
        with contextlib.suppress(aiohttp.ClientError):
            several = 1 + _QUESTIONS * (len(self.replicas) - 1)
            replies = [await self.ask("/readyz/authentication") for _ in range(several)]
            return all(reply.status == 200 for reply in replies)
        return False

    async def install(self) -> None:
        """Install the account, its rights, and a Service that is but a name for this machine."""
        for obj in moved(manifests.render()["rbac.yaml"], self.namespace):
            await self.admin.apply(obj, manager="test")
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": self.namespace},
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

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator in the namespace; a failure is an answer too."""
        line = (*arguments, f"--namespace={self.namespace}")
        return await kubectl.answer(self.control_plane, *line, stdin=stdin)

    async def kubectl_as(self, user: str, *arguments: str, groups: tuple[str, ...] = ()) -> str:
        """Run kubectl as a user in the namespace; a failure is an answer too."""
        path = self.control_plane.kubeconfig_as(user, groups=groups)
        return await self.kubectl(*arguments, f"--kubeconfig={path}")

    def client_of(self, user: str, *, groups: tuple[str, ...] = ()) -> KeyPair:
        """Return a certificate of the cluster's own authority of clients."""
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

    async def until(self, check: Callable[[], Awaitable[Any]]) -> Any:
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


@pytest.fixture(scope="session")
def informer_program() -> Path:
    """Return the program that follows a resource."""
    return programs.path("informer")


@pytest_asyncio.fixture
async def window(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> AsyncIterator[Window]:
    """Install the account, its rights and its Service; no process runs yet."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as admin:
        opened = Window(control_plane, namespace, admin, port=free_port(), directory=tmp_path)
        await opened.install()
        try:
            yield opened
        finally:
            await opened.close()
