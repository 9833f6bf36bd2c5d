"""``inventories/objects``: every row of an inventory, from memory."""

from aiohttp import web

from apiserver import encoding
from apiserver.call import Call
from apiserver.inventories import rows
from apiserver.inventories.finding import Ready, Rows, answer, find


class Listing:
    """Answers from the state of the watches."""

    def __init__(self, inventories: Rows, view: Ready) -> None:
        self._inventories = inventories
        self._view = view

    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer with all objects of the inventory that the call names."""
        inventory = find(call, self._inventories, self._view)
        found = []
        applied = inventory.applied
        async for tracked, row in self._inventories.rows(inventory):
            found.append(rows.document(applied, tracked, row))
        return await encoding.respond(
            call, answer("InventoryObjects", inventory, {"objects": found})
        )
