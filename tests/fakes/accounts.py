"""The part of an API server that knows ServiceAccounts and signs their tokens, with its faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.fakes.issuer import Issuer
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig

Json = dict[str, Any]
_GROUP = "source.toolkit.fluxcd.io"


@dataclass
class FakeAccounts:
    """Accounts by namespace and name; ``forbidden`` are verbs that RBAC does not allow on them.

    ``unreadable`` is whether RBAC allows nobody to read the other objects.
    """

    issuer: Issuer = field(default_factory=Issuer)
    accounts: dict[tuple[str, str], Json] = field(default_factory=dict)
    objects: dict[str, Json] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    requests: list[tuple[str, str, Json]] = field(default_factory=list)
    replaced_by: str = ""
    unreadable: bool = False

    def put(self, namespace: str, name: str, *, uid: str = "u1", **annotations: str) -> None:
        """Make an account, or replace it."""
        metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": annotations}
        self.accounts[namespace, name] = {"metadata": metadata}

    def config_map(self, namespace: str, name: str, **data: str) -> None:
        """Make a ConfigMap."""
        metadata = {"name": name, "namespace": namespace, "resourceVersion": "1"}
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self.objects[path] = {"kind": "ConfigMap", "metadata": metadata, "data": data}

    def repository(self, namespace: str, name: str, spec: Json) -> None:
        """Make a GitRepository."""
        path = f"/apis/{_GROUP}/v1/namespaces/{namespace}/gitrepositories/{name}"
        self.objects[path] = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "GitRepository",
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
            "spec": spec,
        }

    @property
    def tokens(self) -> list[Json]:
        """Return the specs of the tokens that were asked for."""
        return [body["spec"] for method, _, body in self.requests if method == "POST"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Client]:
        """Serve, and give a client."""
        app = web.Application()
        app.router.add_get("/apis", self._discovery)
        app.router.add_get("/api", self._discovery)
        place = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        app.router.add_get(place, self._get)
        app.router.add_post(f"{place}/token", self._token)
        app.router.add_get("/{path:.*}", self._object)
        server = TestServer(app)
        await server.start_server()
        try:
            url = str(server.make_url("")).rstrip("/")
            async with Client.open(ClusterConfig(server=url)) as client:
                yield client
        finally:
            await server.close()

    async def _get(self, request: web.Request) -> web.Response:
        self.requests.append(("GET", request.path, {}))
        if "get" in self.forbidden:
            return _status(403, "Forbidden")
        found = self.accounts.get(_key(request))
        return web.json_response(found) if found else _status(404, "NotFound")

    async def _token(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(("POST", request.path, body))
        if "create" in self.forbidden:
            return _status(403, "Forbidden")
        if _key(request) not in self.accounts:
            return _status(404, "NotFound")
        spec = body["spec"]
        metadata = self.accounts[_key(request)]["metadata"]
        token = self.issuer.sign(
            *_key(request),
            *spec["audiences"],
            seconds=spec["expirationSeconds"],
            uid=self.replaced_by or metadata["uid"],
        )
        end = datetime.now(UTC) + timedelta(seconds=spec["expirationSeconds"])
        status = {"token": token, "expirationTimestamp": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        return web.json_response({**body, "status": status}, status=201)

    async def _object(self, request: web.Request) -> web.Response:
        if self.unreadable:
            return _status(403, "Forbidden")
        found = self.objects.get(request.path)
        return web.json_response(found) if found else _status(404, "NotFound")

    async def _discovery(self, request: web.Request) -> web.Response:
        core = _discovered("", configmaps="ConfigMap", secrets="Secret")
        other = _discovered(_GROUP, gitrepositories="GitRepository")
        items = [core if request.path == "/api" else other]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})


def _discovered(group: str, **kinds: str) -> Json:
    rows = [
        {
            "resource": resource,
            "responseKind": {"kind": kind},
            "scope": "Namespaced",
            "verbs": ["get"],
        }
        for resource, kind in kinds.items()
    ]
    return {"metadata": {"name": group}, "versions": [{"version": "v1", "resources": rows}]}


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


def _status(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"fake {reason}"}
    return web.json_response(body, status=code)
