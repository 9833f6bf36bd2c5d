"""``inventories/tree``: the applied objects and what belongs to them, read when somebody asks.

Children name their owner by uid, and are in its namespace. Only what the labels prove to be the
applier's is followed, from the uid that the watch has shown, so that a name in an inventory opens
nothing. Kinds that we may not list are said to be unread. Secrets are in no row of the table.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aiohttp import web

from apiserver import encoding, fairness, status
from apiserver.call import Call
from apiserver.inventories.finding import Ready, answer, find
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.projection import Inventories
from apiserver.inventories.rows import Flag
from toolkit.apply import health
from toolkit.apply.order import GroupKind
from toolkit.errors import PenstockError
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig, key_of
from toolkit.turns import Turns

_REPLICA_SET: Final = GroupVersionKind("apps", "v1", "ReplicaSet")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_JOB: Final = GroupVersionKind("batch", "v1", "Job")
_ENDPOINT_SLICE: Final = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")

CHILDREN: Final[Mapping[GroupKind, GroupVersionKind]] = MappingProxyType(
    {
        ("apps", "Deployment"): _REPLICA_SET,
        ("apps", "ReplicaSet"): _POD,
        ("apps", "StatefulSet"): _POD,
        ("apps", "DaemonSet"): _POD,
        ("", "ReplicationController"): _POD,
        ("batch", "CronJob"): _JOB,
        ("batch", "Job"): _POD,
        ("", "Service"): _ENDPOINT_SLICE,
    }
)
"""Which kind the objects of a kind own."""

_MOST: Final = 5_000
"""Objects read for one answer."""
_SECONDS: Final = 20.0
_AT_ONCE: Final = 4
_TURNS: Final = 4
_WAITING: Final = 64
_PAGE: Final = 500


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One answer in the making: what was listed, by kind and namespace, and how much is left."""

    left: int = _MOST
    children: dict[str, list[Json]] = field(default_factory=dict)
    unread: dict[tuple[GroupVersionKind, str], str] = field(default_factory=dict)


class Tree:
    """Reads with our own rights; a few answers at a time, fair to users."""

    def __init__(self, api: Client, inventories: Inventories, view: Ready) -> None:
        self._api = api
        self._inventories = inventories
        self._view = view
        self._turns = Turns(places=_TURNS, waiting=_WAITING)
        self._lists = asyncio.Semaphore(_AT_ONCE)

    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer with the tree below the inventory that the call names."""
        inventory = find(call, self._inventories, self._view)
        try:
            async with asyncio.timeout(_SECONDS), fairness.turn(self._turns, call.user):
                nodes = await self._grown(inventory)
        except TimeoutError as exc:
            raise status.unavailable(
                "the API server did not list what belongs to the objects in time", retry_after=5
            ) from exc
        return await encoding.respond(call, answer("InventoryTree", inventory, {"objects": nodes}))

    async def _grown(self, inventory: Inventory) -> list[Json]:
        nodes, roots = _roots(self._inventories, inventory)
        reading, level = _Reading(), roots
        while level:
            await self._read(reading, level)
            level = list(_attached(reading, level))
        return nodes

    async def _read(self, reading: _Reading, level: Iterable["_Branch"]) -> None:
        """List, once each, the kinds that this level may own in their namespaces."""
        wanted = {
            (kind, branch.node.get("namespace", ""))
            for branch in level
            if (kind := CHILDREN.get(branch.kind))
        }
        reading.children.clear()
        async with asyncio.TaskGroup() as group:
            for kind, namespace in sorted(wanted):
                if namespace:
                    group.create_task(self._list(reading, kind, namespace))

    async def _list(self, reading: _Reading, kind: GroupVersionKind, namespace: str) -> None:
        try:
            async with self._lists:
                await self._pages(reading, kind, namespace)
        except PenstockError as exc:
            reading.unread[kind, namespace] = f"{kind.kind}s cannot be read: {exc}"

    async def _pages(self, reading: _Reading, kind: GroupVersionKind, namespace: str) -> None:
        path = (await self._api.mapper.resource(kind)).path(namespace=namespace)
        query = {"limit": str(_PAGE), "resourceVersion": "0"}
        while reading.left > 0:
            page = await self._api.request("GET", path, query=query)
            items = page.get("items") or []
            reading.left -= len(items)
            for item in items:
                named = {**item, "apiVersion": kind.api_version, "kind": kind.kind}
                for owner in dig(item, "metadata", "ownerReferences", default=()):
                    reading.children.setdefault(str(owner.get("uid") or ""), []).append(named)
            query = {"limit": str(_PAGE), "continue": dig(page, "metadata", "continue", default="")}
            if not query["continue"]:
                return
        reading.unread[kind, namespace] = f"more than {_MOST} objects: not all are shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A node that may have children, and its uid."""

    kind: GroupKind
    uid: str
    node: Json


def _roots(inventories: Inventories, inventory: Inventory) -> tuple[list[Json], list[_Branch]]:
    nodes, branches = [], []
    for tracked, row in inventories.rows(inventory):
        ref, seen = tracked.ref, tracked.seen
        node: Json = {"apiVersion": ref.gvk.api_version, "kind": ref.gvk.kind}
        if ref.namespace:
            node["namespace"] = ref.namespace
        node |= {"name": ref.name, "health": row.health.status.value}
        if row.health.message:
            node["message"] = row.health.message
        nodes.append(node)
        own = seen is not None and seen.live.owner == inventory.applied.key
        if own and seen is not None and row.flags & Flag.OBSERVED:
            branches.append(_Branch(kind=ref.gvk.group_kind, uid=seen.live.uid, node=node))
    return nodes, branches


def _attached(reading: _Reading, level: Iterable[_Branch]) -> Iterable[_Branch]:
    """Hang the children that were read below their owners, and yield them."""
    for branch in level:
        kind = CHILDREN.get(branch.kind)
        namespace = branch.node.get("namespace", "")
        if kind is None:
            continue
        if problem := reading.unread.get((kind, namespace)):
            branch.node["unread"] = problem
        found = [
            obj
            for obj in reading.children.get(branch.uid, ())
            if obj["kind"] == kind.kind and key_of(obj).namespace == namespace
        ]
        for obj in sorted(found, key=lambda obj: key_of(obj).name):
            yield _child(branch, kind, obj)


def _child(branch: _Branch, kind: GroupVersionKind, obj: Json) -> _Branch:
    key, fares = key_of(obj), health.assess(obj)
    node: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": key.namespace,
        "name": key.name,
        "health": fares.status.value,
        "message": fares.message,
    }
    branch.node.setdefault("children", []).append(node)
    uid = str(dig(obj, "metadata", "uid", default=""))
    return _Branch(kind=kind.group_kind, uid=uid, node=node)
