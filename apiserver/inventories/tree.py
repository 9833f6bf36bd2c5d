"""``inventories/tree``: the applied objects and their dependents, read on request.

Only objects whose labels prove the applier's ownership are followed, from the uid that the watch
has shown, so a name in an inventory gives access to nothing. The process reads with its own
permissions, so only in the namespace of the inventory, for which the client was authorized. The
dependents of an object in another namespace are shown as unread, as are kinds that the process may
not list. Secrets are in no row of the table. The reads are bounded (``toolkit.apply.owned``).
"""

import asyncio
from typing import Final

from aiohttp import web

from apiserver import encoding, fairness, status
from apiserver.call import Call
from apiserver.inventories.finding import Ready, Rows, answer, find
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.rows import Flag
from toolkit.apply.owned import growing
from toolkit.apply.owned.growing import Branch
from toolkit.kube.client import Client
from toolkit.objects import Json
from toolkit.turns import Turns

_SECONDS: Final = 20.0
_AT_ONCE: Final = 4
_TURNS: Final = 4
_WAITING: Final = 64


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
        await growing.grow(self._api, roots, self._lists)
        return nodes


async def _roots(inventories: Rows, inventory: Inventory) -> tuple[list[Json], list[Branch]]:
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
            if ref.gvk.group_kind in growing.CHILDREN:
                node["unread"] = f"what it owns is in namespace {ref.namespace}: look there"
        elif own and seen is not None and row.flags & Flag.OBSERVED:
            branches.append(Branch(kind=ref.gvk.group_kind, uid=seen.live.uid, node=node))
    return nodes, branches
