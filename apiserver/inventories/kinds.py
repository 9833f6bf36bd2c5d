"""The inventories of all kinds of appliers together; the name selects the kind."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from apiserver.inventories.appliers import Applier
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.projection import Inventories
from apiserver.inventories.rows import Row, Tracked
from toolkit.objects import ObjectKey


class Kinds:
    """All inventories."""

    def __init__(self, several: Mapping[Applier, Inventories]) -> None:
        self._several = several

    async def run(self) -> None:
        """Watch and serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._several.values():
                group.create_task(each.run())

    def get(self, key: ObjectKey) -> Inventory | None:
        """Return the inventory that is served under a name."""
        found = (each.get(key) for each in self._several.values())
        return next((each for each in found if each is not None), None)

    def rows(self, inventory: Inventory) -> AsyncIterator[tuple[Tracked, Row]]:
        """Yield all rows of an inventory (``Inventories.rows``)."""
        return self._several[inventory.applier].rows(inventory)
