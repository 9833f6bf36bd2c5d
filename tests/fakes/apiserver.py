"""An API server on loopback that misbehaves on demand.

It knows a handful of kinds, resourceVersions, watches with and without WatchList, merge and apply
patches, status, finalizers. What is real (SSA, admission, RBAC) belongs to ``tests/contract``; this
one is for what a real server does rarely: 410s, dropped watches, errors, silence.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig

Json = dict[str, Any]

KINDS = {
    ("", "v1", "configmaps"): "ConfigMap",
    ("", "v1", "secrets"): "Secret",
    ("", "v1", "events"): "Event",
    ("coordination.k8s.io", "v1", "leases"): "Lease",
    ("source.toolkit.fluxcd.io", "v1", "gitrepositories"): "GitRepository",
}

CLUSTER_SCOPED = frozenset(
    {"namespaces", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
)


@dataclass
class Failure:
    """Answers with ``status`` to the next ``times`` requests that match."""

    method: str
    fragment: str
    status: int
    times: int = 1
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""


class FakeApiServer:
    """The state, and the knobs that break it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}  # (plural, namespace, name)
        self.kinds = dict(KINDS)
        self.stale: set[tuple[str, str]] = set()  # group and version of a server that is down
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._acts: list[tuple[str, Callable[[], None]]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Any] = []
        self.failures: list[Failure] = []
        self.watch_list = "served"  # or "refused", "ignored"
        self.no_items: list[Json] | None = []  # or null, as older servers say
        self.page = 2
        self.down = False
        self.deaf = False
        self.hang: asyncio.Event | None = None
        self.raw_events: list[bytes] = []
        self._version = 100
        self._oldest = 0
        self._log: list[tuple[int, str, str, Json]] = []
        self._watches: list[asyncio.Queue[bytes | None]] = []
        self._filters: dict[int, tuple[str, str]] = {}

    # What a test does to it.

    def put(self, plural: str, name: str, namespace: str = "default", **body: Any) -> Json:
        """Create or replace an object, as another client would."""
        key = (plural, namespace, name)
        old = self.objects.get(key)
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
        meta |= (old or {}).get("metadata", {}) | body.pop("metadata", {})
        new = {**self._type(plural), "metadata": meta, **body}
        return self._store(plural, old, new)

    def edit(self, plural: str, name: str, change: Callable[[Json], None]) -> Json:
        """Change an object in place."""
        old = self.objects[(plural, "default", name)]
        new = copy.deepcopy(old)
        change(new)
        return self._store(plural, old, new)

    def remove(self, plural: str, name: str, namespace: str = "default") -> None:
        """Delete an object, or mark it when finalizers hold it."""
        old = self.objects[(plural, namespace, name)]
        if old["metadata"].get("finalizers"):
            new = copy.deepcopy(old)
            new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._store(plural, old, new)
        else:
            self._drop(plural, old)

    def fail(self, method: str, fragment: str, status: int, **more: Any) -> None:
        """Let matching requests fail."""
        self.failures.append(Failure(method, fragment, status, **more))

    def when(self, fragment: str, act: Callable[[], None]) -> None:
        """Act before a request to a path that contains the fragment is answered."""
        self._acts.append((fragment, act))

    def drop_watches(self) -> None:
        """End every open watch."""
        for queue in self._watches:
            queue.put_nowait(None)

    def compact(self) -> None:
        """Forget history: a watch from an old position gets 410."""
        self._oldest = self._version

    def send_raw(self, line: bytes) -> None:
        """Send a line to every open watch."""
        for queue in self._watches:
            queue.put_nowait(line + b"\n")

    def send_unended(self, part: bytes) -> None:
        """Send a part of a line to every open watch."""
        for queue in self._watches:
            queue.put_nowait(part)

    def bookmark(self) -> None:
        """Move every watch on without an event."""
        self._version += 1
        self.send_raw(self._bookmark())

    @property
    def watchers(self) -> int:
        """Return the number of open watches."""
        return len(self._watches)

    def count(self, method: str, fragment: str) -> int:
        """Return how many requests matched."""
        return sum(m == method and fragment in path for m, path, _ in self.requests)

    # HTTP.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Client]:
        """Serve, and give a client."""
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._handle)
        server = TestServer(app)
        await server.start_server()
        url = str(server.make_url("")).rstrip("/")
        try:
            async with Client.open(ClusterConfig(server=url)) as client:
                yield client
                self.drop_watches()
        finally:
            self.drop_watches()
            await server.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        self.requests.append((request.method, path, dict(request.query)))
        for fragment, act in self._acts:
            if fragment in path:
                act()
        self.headers.append(dict(request.headers))
        if self.down:
            assert request.transport
            request.transport.abort()
            return web.Response()
        if self.hang:
            await self.hang.wait()
        for failure in self.failures:
            watch = "watch=" + request.query.get("watch", "")
            if failure.method == request.method and failure.fragment in f"{path}?{watch}":
                failure.times -= 1
                if failure.times <= 0:
                    self.failures.remove(failure)
                if failure.text:
                    return web.Response(status=failure.status, text=failure.text)
                return _status(failure.status, failure.reason, headers=failure.headers)
        if path in {"/api", "/apis"}:
            return web.json_response(self._discovery(core=path == "/api"))
        return await self._resource(request, [part for part in path.split("/") if part])

    async def _resource(self, request: web.Request, parts: list[str]) -> web.StreamResponse:
        group, version, rest = ("", parts[1], parts[2:])
        if parts[0] == "apis":
            group, version, rest = (parts[1], parts[2], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural = rest[0]
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if (group, version, plural) not in self.kinds:
            return _status(404, "NotFound")
        if request.query.get("watch"):
            return await self._watch(request, plural, namespace)
        body: Any = await request.json() if request.body_exists else None
        self.bodies.append(body)
        if request.method == "GET" and not name:
            return self._list(request, plural, namespace)
        if request.method == "POST":
            return self._create(plural, namespace, body)
        obj = self.objects.get((plural, namespace, name))
        if obj is None:
            return _status(404, "NotFound")
        return self._one(request.method, plural, obj, body, subresource)

    def _one(
        self, method: str, plural: str, obj: Json, body: Any, subresource: str
    ) -> web.Response:
        if method == "GET":
            return web.json_response(obj)
        if method == "DELETE":
            self.remove(plural, obj["metadata"]["name"], obj["metadata"]["namespace"])
            return web.json_response({"kind": "Status", "status": "Success"})
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != obj["metadata"]["resourceVersion"]:
            return _status(409, "Conflict")
        if method == "PUT":
            replaced = {**obj, "status": body.get("status") or {}} if subresource else body
            return web.json_response(self._store(plural, obj, replaced))
        new = copy.deepcopy(obj)
        if subresource == "status":
            new["status"] = merge(obj.get("status") or {}, body.get("status") or {})
        else:
            new = merge(obj, {key: value for key, value in body.items() if key != "status"})
            new["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
            if new.get("spec") != obj.get("spec"):
                new["metadata"]["generation"] = obj["metadata"].get("generation", 1) + 1
        if new == obj:
            return web.json_response(obj)
        stored = self._store(plural, obj, new)
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            self._drop(plural, stored)
        return web.json_response(stored)

    def _create(self, plural: str, namespace: str, body: Json) -> web.Response:
        name = body["metadata"]["name"]
        if (plural, namespace, name) in self.objects:
            return _status(409, "AlreadyExists")
        body["metadata"]["namespace"] = namespace
        body["metadata"].setdefault("uid", f"uid-{name}")
        return web.json_response(self._store(plural, None, body), status=201)

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        items = _labelled(self._matching(plural, namespace), request.query.get("labelSelector", ""))
        start = int(request.query.get("continue") or 0)
        size = min(int(request.query.get("limit") or 500), self.page)
        more = start + size < len(items)
        meta = {"resourceVersion": str(self._version)}
        if more:
            meta["continue"] = str(start + size)
        page = items[start : start + size]
        return web.json_response({"metadata": meta, "items": page or self.no_items})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and self.watch_list == "refused":
            return _status(422, "Invalid")
        position = int(request.query.get("resourceVersion") or 0)
        if position and position < self._oldest:
            return _status(410, "Expired")
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watches.append(queue)
        self._filters[id(queue)] = (plural, namespace)
        if initial and self.watch_list == "served":
            for obj in self._matching(plural, namespace):
                queue.put_nowait(_line("ADDED", obj))
            for raw in self.raw_events:
                queue.put_nowait(raw + b"\n")
            queue.put_nowait(self._bookmark(initial=True) + b"\n")
        if not initial:
            for version, type_, changed, obj in self._log:
                if version > position and changed == plural:
                    queue.put_nowait(_line(type_, obj))
        try:
            while (line := await queue.get()) is not None:
                await response.write(line)
        finally:
            self._watches.remove(queue)
        return response

    # State.

    def _store(self, plural: str, old: Json | None, new: Json) -> Json:
        self._version += 1
        new = copy.deepcopy(new)
        new["metadata"]["resourceVersion"] = str(self._version)
        meta = new["metadata"]
        self.objects[(plural, meta["namespace"], meta["name"])] = new
        self._tell("ADDED" if old is None else "MODIFIED", plural, new)
        return new

    def _drop(self, plural: str, obj: Json) -> None:
        self._version += 1
        gone = copy.deepcopy(obj)
        gone["metadata"]["resourceVersion"] = str(self._version)
        meta = gone["metadata"]
        del self.objects[(plural, meta["namespace"], meta["name"])]
        self._tell("DELETED", plural, gone)

    def _tell(self, type_: str, plural: str, obj: Json) -> None:
        if self.deaf:
            return
        self._log.append((self._version, type_, plural, obj))
        for queue in self._watches:
            wanted, namespace = self._filters[id(queue)]
            if wanted == plural and namespace in {"", obj["metadata"]["namespace"]}:
                queue.put_nowait(_line(type_, obj))

    def _matching(self, plural: str, namespace: str) -> list[Json]:
        return [
            obj
            for (kind, space, _), obj in sorted(self.objects.items())
            if kind == plural and namespace in {"", space}
        ]

    def _bookmark(self, *, initial: bool = False) -> bytes:
        meta: Json = {"resourceVersion": str(self._version)}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode()

    def _type(self, plural: str) -> Json:
        for (group, version, name), kind in self.kinds.items():
            if name == plural:
                return {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind}
        raise KeyError(plural)

    def _discovery(self, *, core: bool) -> Json:
        groups: dict[tuple[str, str], list[Json]] = {}
        for (group, version, plural), kind in self.kinds.items():
            if (group == "") == core:
                groups.setdefault((group, version), []).append(
                    {
                        "resource": plural,
                        "responseKind": {"kind": kind},
                        "scope": "Cluster" if plural in CLUSTER_SCOPED else "Namespaced",
                        "verbs": ["get", "list", "watch"],
                    }
                )
        return {
            "kind": "APIGroupDiscoveryList",
            "items": [
                {"metadata": {"name": name}, "versions": [{"version": version, "resources": rows}]}
                for (name, version), rows in groups.items()
            ]
            + [
                {
                    "metadata": {"name": name},
                    "versions": [{"version": version, "resources": [], "freshness": "Stale"}],
                }
                for name, version in self.stale
                if not core
            ],
        }


def merge(old: Any, change: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _labelled(items: list[Json], selector: str) -> list[Json]:
    """Return the objects with all labels of ``name=value,…``."""
    wanted = [part.split("=", 1) for part in selector.split(",") if "=" in part]
    return [
        each
        for each in items
        if all((each["metadata"].get("labels") or {}).get(k) == v for k, v in wanted)
    ]


def _line(type_: str, obj: Json) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def _status(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"fake {reason or code}"}
    return web.json_response(body, status=code, headers=headers)
