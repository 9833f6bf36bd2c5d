"""``inventories/tree``: the applied objects and what belongs to them, read when somebody asks.

Children name their owner by uid, and are in its namespace. Only what the labels prove to be the
applier's is followed, from the uid that the watch has shown, so that a name in an inventory opens
nothing. We read with our own rights, so only in the namespace of the inventory, whose readers were
asked about: what an object of another namespace owns is said to be unread, as are kinds that we may
not list. Secrets are in no row of the table.

Objects may be large and many. Pages are small, and bounded before they are read; of each object
nothing is kept but what the tree shows.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec
from aiohttp import web

from apiserver import encoding, fairness, status
from apiserver.call import Call
from apiserver.inventories.finding import Ready, Rows, answer, find
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.rows import Flag
from crds import misfits
from toolkit.apply import health
from toolkit.apply.order import GroupKind
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json
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
_PAGE: Final = 50
_PAGE_BYTES: Final = 8 << 20
_MOST_BYTES: Final = 64 << 20
"""Read for one answer; not held."""


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One answer in the making: what was found, by owner, and how much may still be read."""

    left: int = _MOST
    bytes_left: int = _MOST_BYTES
    children: dict[tuple[str, GroupVersionKind], list["_Child"]] = field(default_factory=dict)
    unread: dict[tuple[GroupVersionKind, str], str] = field(default_factory=dict)


class Tree:
    """Reads with our own rights; a few answers at a time, fair to users."""

    def __init__(self, api: Client, inventories: Rows, view: Ready) -> None:
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
                "the API server did not list what belongs to the objects in time"
            ) from exc
        return await encoding.respond(call, answer("InventoryTree", inventory, {"objects": nodes}))

    async def _grown(self, inventory: Inventory) -> list[Json]:
        nodes, roots = await _roots(self._inventories, inventory)
        reading, level = _Reading(), roots
        while level:
            await self._read(reading, level)
            level = list(_attached(reading, level))
        return nodes

    async def _read(self, reading: _Reading, level: Iterable["_Branch"]) -> None:
        """List, once each, the kinds that this level may own in their namespaces."""
        wanted: dict[tuple[GroupVersionKind, str], set[str]] = {}
        for branch in level:
            namespace = branch.node.get("namespace", "")
            if namespace and (kind := CHILDREN.get(branch.kind)):
                wanted.setdefault((kind, namespace), set()).add(branch.uid)
        reading.children.clear()
        async with asyncio.TaskGroup() as group:
            for (kind, namespace), owners in sorted(wanted.items()):
                group.create_task(self._list(reading, kind, namespace, owners))

    async def _list(
        self, reading: _Reading, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]
    ) -> None:
        try:
            async with self._lists:
                await self._pages(reading, kind, namespace, owners)
        except PenstockError as exc:
            reading.unread[kind, namespace] = f"{kind.kind}s cannot be read: {exc}"

    async def _pages(
        self, reading: _Reading, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]
    ) -> None:
        path = (await self._api.mapper.resource(kind)).path(namespace=namespace)
        query = {"limit": str(_PAGE)}
        while reading.left > 0:
            body = await self._page(reading, path, query)
            if body is None:
                reading.unread[kind, namespace] = "objects are too large: not all are shown"
                return
            # decoded in a thread, object by object, and nothing of it stays
            page = await asyncio.to_thread(_read, body, kind, namespace, owners)
            del body
            reading.left -= page.count
            for owner, child in page.children:
                reading.children.setdefault((owner, kind), []).append(child)
            if not page.more:
                return
            query = {"limit": str(_PAGE), "continue": page.more}
        reading.unread[kind, namespace] = f"more than {_MOST} objects: not all are shown"

    async def _page(self, reading: _Reading, path: str, query: Mapping[str, str]) -> bytes | None:
        """Return one page, or None if it is too large, or all have become so together."""
        body = bytearray()
        # a stream, because nothing else can be given up when it is too long
        async with self._api.watch(path, query=query, accept="application/json") as chunks:
            async for chunk in chunks:
                reading.bytes_left -= len(chunk)
                if len(body) + len(chunk) > _PAGE_BYTES or reading.bytes_left < 0:
                    return None
                body += chunk
        return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A node that may have children, and its uid."""

    kind: GroupKind
    uid: str
    node: Json


async def _roots(inventories: Rows, inventory: Inventory) -> tuple[list[Json], list[_Branch]]:
    nodes, branches = [], []
    async for tracked, row in inventories.rows(inventory):
        ref, seen = tracked.ref, tracked.seen
        node: Json = {"apiVersion": ref.gvk.api_version, "kind": ref.gvk.kind}
        if ref.namespace:
            node["namespace"] = ref.namespace
        node |= {"name": ref.name, "health": row.health.status.value}
        if row.health.message:
            node["message"] = row.health.message
        nodes.append(node)
        own = seen is not None and seen.live.owner == inventory.applied.key
        if own and ref.namespace != inventory.applied.key.namespace:
            if ref.gvk.group_kind in CHILDREN:
                node["unread"] = f"what it owns is in namespace {ref.namespace}: look there"
        elif own and seen is not None and row.flags & Flag.OBSERVED:
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
        found = reading.children.get((branch.uid, kind), ())
        for child in sorted(found, key=lambda child: child.name):
            if child.namespace == namespace:
                yield _grown(branch, kind, child)


def _grown(branch: _Branch, kind: GroupVersionKind, child: "_Child") -> _Branch:
    node: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": child.namespace,
        "name": child.name,
        "health": child.health.status.value,
        "message": child.health.message,
    }
    branch.node.setdefault("children", []).append(node)
    return _Branch(kind=kind.group_kind, uid=child.uid, node=node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """What the tree shows of an object that somebody owns."""

    namespace: str
    name: str
    uid: str
    health: health.Health


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What was found in one page, each with the uid of its owner, and where the next begins."""

    count: int
    more: str
    children: tuple[tuple[str, _Child], ...]


class _Owner(msgspec.Struct):
    uid: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class _ListMeta(msgspec.Struct):
    more: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_OBJECT: Final = msgspec.json.Decoder(_Object)


def _read(body: bytes, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]) -> _Page:
    """Read one page.

    Raises:
        TransientError: the body is not a list of objects.
    """
    try:
        page = _LIST.decode(body)
        items = page.items or ()
        found = tuple(pair for raw in items for pair in _owned(raw, kind, namespace, owners))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise TransientError(
            f"the server sent something that is not a list: {misfits.told(exc)}"
        ) from exc
    return _Page(count=len(items), more=page.metadata.more, children=found)


def _owned(
    raw: msgspec.Raw, kind: GroupVersionKind, namespace: str, owners: AbstractSet[str]
) -> Iterator[tuple[str, _Child]]:
    """Yield an object for each of its owners that is asked about."""
    obj = _OBJECT.decode(raw)
    meta = obj.metadata
    ours = owners & {owner.uid for owner in meta.owner_references or ()}
    if not ours:
        return
    judged: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "namespace": namespace,
            "name": meta.name,
            "generation": meta.generation,
            "deletionTimestamp": meta.deletion_timestamp,
        },
        "spec": obj.spec or {},
        "status": obj.status or {},
    }
    child = _Child(
        namespace=meta.namespace, name=meta.name, uid=meta.uid, health=health.assess(judged)
    )
    yield from ((owner, child) for owner in ours)
