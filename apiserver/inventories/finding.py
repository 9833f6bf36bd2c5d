"""Find the inventory of a request for a subresource, and begin its answer."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from apiserver import status
from apiserver.call import Call
from apiserver.inventories.inventory import API_VERSION, Inventory
from apiserver.inventories.rows import Row, Tracked
from toolkit.objects import Json, ObjectKey

RESOURCE = "inventories"


class Known(Protocol):
    """Returns inventories (``projection.Inventories``, ``kinds.Kinds``)."""

    def get(self, key: ObjectKey) -> Inventory | None:
        """Return the inventory that is served under a name."""


class Rows(Known, Protocol):
    """Returns inventories and their rows."""

    def rows(self, inventory: Inventory) -> AsyncIterator[tuple[Tracked, Row]]:
        """Yield all rows of an inventory, in the order in which the applier lists them."""
        ...


class Ready(Protocol):
    """Tells whether everything was read once (``apiserver.view.View``)."""

    @property
    def ready(self) -> bool:
        """Tell whether readers may be answered."""

    @property
    def missing(self) -> list[str]:
        """Return the kinds whose caches are not complete."""

    @property
    def behind(self) -> list[str]:
        """Return the kinds whose caches have not heard of changes for long."""


def find(call: Call, known: Known, view: Ready) -> Inventory:
    """Return the inventory of a call.

    Raises:
        StatusError: 404, there is none; 503, it is not known yet, or not any more.
    """
    if view.behind:
        raise status.behind(f"{RESOURCE}.{status.GROUP}", view.behind)
    if not view.ready:
        kinds = ", ".join(view.missing) or "applied objects"
        raise status.not_yet(f"the cache of inventories is not complete yet: {kinds}")
    inventory = known.get(ObjectKey(call.namespace, call.name))
    if inventory is None:
        raise status.not_found(RESOURCE, call.name)
    return inventory


def answer(kind: str, inventory: Inventory, parts: Mapping[str, object]) -> Json:
    """Return a document about an inventory."""
    key = inventory.key
    metadata = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **parts}
