"""An aggregated API server with one kind, ``Widget``, which can be down and keeps its objects."""

import base64
import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from controlplane.certificates import Authority
from tests.tools.administrator import Administrator
from tests.tools.waiting import until
from toolkit.objects import Json

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(kw_only=True)
class Aggregated:
    """The server; ``objects`` are by path."""

    group: str
    administrator: Administrator
    objects: dict[str, Json] = field(default_factory=dict)
    down: bool = False

    @property
    def service(self) -> str:
        """Return the name of the APIService."""
        return f"v1.{self.group}"

    async def goes(self) -> None:
        """Stop answering, and return when the discovery of the API server shows it."""
        self.down = True
        await self._shown("Stale")

    async def comes(self) -> None:
        """Answer again, and return when the API server passes requests on."""
        self.down = False
        await self._shown("Current")

    async def _shown(self, freshness: str) -> None:
        turns = 0

        def seen() -> bool:
            nonlocal turns
            turns += 1
            # A change of the APIService has the API server look at once.
            notes = {"metadata": {"annotations": {"turn": str(turns)}}}
            content = "application/merge-patch+json"
            where = f"{SERVICES}/{self.service}"
            live = self.administrator.send("PATCH", where, notes, content=content)
            available = {
                each["type"]: each["status"]
                for each in live.get("status", {}).get("conditions", ())
            }.get("Available")
            return (freshness, freshness == "Current") == (self._freshness(), available == "True")

        await until(seen)

    def _freshness(self) -> str:
        found = self.administrator.send("GET", "/apis", accept=_DISCOVERY)["items"]
        for each in found:
            if each["metadata"]["name"] == self.group:
                return str(each["versions"][0].get("freshness"))
        return ""

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """Return status and body of an answer."""
        if self.down:
            return HTTPStatus.SERVICE_UNAVAILABLE, {}
        if path == f"/apis/{self.group}/v1":
            resource = {
                "name": "widgets",
                "singularName": "widget",
                "namespaced": True,
                "kind": "Widget",
                "verbs": ["get", "list", "patch", "delete", "create"],
            }
            kind = {"kind": "APIResourceList", "apiVersion": "v1"}
            return HTTPStatus.OK, {
                **kind,
                "groupVersion": f"{self.group}/v1",
                "resources": [resource],
            }
        if method == "PATCH":
            live = self.objects.get(path, {})
            made = live.get("metadata", {}).get("uid") or secrets.token_hex(8)
            body["metadata"] |= {"uid": made, "resourceVersion": "1", "namespace": _place(path)}
            self.objects[path] = body
            return HTTPStatus.OK if live else HTTPStatus.CREATED, body
        found = self.objects.get(path)
        if found is None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
            return HTTPStatus.NOT_FOUND, {**status, "reason": "NotFound", "code": 404}
        if method == "DELETE":
            del self.objects[path]
        return HTTPStatus.OK, found


def _place(path: str) -> str:
    return path.partition("/namespaces/")[2].partition("/")[0]


@contextmanager
def serving(administrator: Administrator, namespace: str, directory: Path) -> Iterator[Aggregated]:
    """Run a server for a group of its own, and register it."""
    group = f"{secrets.token_hex(4)}.aggregated.test"
    server = Aggregated(group=group, administrator=administrator)
    authority = Authority.create("aggregated-ca")
    host = f"widgets.{namespace}.svc"
    authority.serving("widgets", hosts=(host,)).write(directory, "widgets")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(directory / "widgets.crt", directory / "widgets.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(server)) as listener:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            _register(server, namespace, listener.server_port, authority.pair.certificate)
            yield server
        finally:
            administrator.send("DELETE", f"{SERVICES}/{server.service}")
            listener.shutdown()
            thread.join()


def _register(server: Aggregated, namespace: str, port: int, authority: bytes) -> None:
    service: Json = {
        "metadata": {"name": "widgets"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    server.administrator.send("POST", f"/api/v1/namespaces/{namespace}/services", service)
    registration: Json = {
        "metadata": {"name": server.service},
        "spec": {
            "group": server.group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority).decode(),
            "service": {"name": "widgets", "namespace": namespace, "port": port},
        },
    }
    server.administrator.send("POST", SERVICES, registration)


def _handler(server: Aggregated) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body: Any = json.loads(self.rfile.read(length) or b"{}")
            status, told = server.answer(self.command, self.path.partition("?")[0], body)
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_DELETE = do_POST = answer  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in http.server
            """Write nothing."""

    return Handler
