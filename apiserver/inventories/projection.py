"""Compute the served inventories from informers and watches, at a cost that grows with the change.

An event of an object updates the rows of that object, in the inventories that list it. An event of
an applier updates its own rows. An inventory with changed rows is served again a few times per
second at most, for any rate of changes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Final, Protocol

from apiserver.inventories import rows
from apiserver.inventories.appliers import Applied, Applier
from apiserver.inventories.drift import Observed
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.observation import Observation, judged
from apiserver.inventories.rows import Row, Tracked
from toolkit.apply.health import Rule
from toolkit.apply.order import GroupKind, Identity
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube.client import Client
from toolkit.kube.informer import Change
from toolkit.multimap import MultiMap
from toolkit.objects import Json, ObjectKey, ObjectRef

PAUSE: Final = 0.2
_BATCH: Final = 50
_ROWS: Final = 500


class View(Protocol):
    """The view that serves inventories (``apiserver.view``)."""

    def put(self, obj: Json, *, revision: int) -> None:
        """Serve an object from now on."""

    def remove(self, key: ObjectKey, *, revision: int) -> None:
        """Stop serving an inventory."""

    def advance(self, revision: int) -> None:
        """Record the revision up to which the view is current."""


class Inventories:
    """All inventories of one kind of applier."""

    def __init__(
        self,
        api: Client,
        applier: Applier,
        view: View,
        *,
        evaluates: Evaluates,
    ) -> None:
        self._applier = applier
        self._view = view
        self.observation = Observation(
            api, applier, self, rules_of=self._rules, evaluates=evaluates
        )
        self._inventories: dict[ObjectKey, Inventory] = {}
        self._tracked: dict[Identity, Tracked] = {}
        self._users: MultiMap[Identity, ObjectKey] = MultiMap()
        self._kinds: dict[GroupKind, set[Identity]] = {}
        self._dirty: dict[ObjectKey, None] = {}
        self._doubtful: dict[GroupKind, None] = {}
        self._wake = asyncio.Event()
        self._flushing = asyncio.Lock()

    async def run(self) -> None:
        """Watch and serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.observation.run())
            group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self.observation.settle()
            await self.flush()
            await asyncio.sleep(PAUSE)

    async def flush(self) -> None:
        """Serve the changed inventories; yields to other tasks."""
        async with self._flushing:
            await self._look_again()
            for number, key in enumerate(tuple(self._dirty), start=1):
                self._dirty.pop(key, None)
                if inventory := self._inventories.get(key):
                    obj = inventory.document(self._shown_in(key))
                    self._view.put(obj, revision=inventory.revision)
                if number % _BATCH == 0:
                    await asyncio.sleep(0)

    def applier(self, change: Change[Applied]) -> None:
        """Take in an event of an applier (informer handler)."""
        key, new = change.key, change.new
        if new is None:
            self._forget(change)
            return
        inventory = self._inventories.get(key)
        fresh = inventory is None
        if inventory is None:
            inventory = self._inventories[key] = Inventory(applier=self._applier, applied=new)
        before, inventory.applied = inventory.applied, new
        _advance(inventory, new.resource_version)
        joined = self._relist(inventory, new.refs) if fresh or before.refs != new.refs else ()
        rejudged = before.remote != new.remote or _keys(before) != _keys(new)
        if rejudged:
            self._watch(inventory)
        for identity in tuple(inventory.flags) if rejudged else joined:
            self._count(inventory, identity)
        if before.busy != new.busy:
            # Healthy existing objects do not depend on it.
            for identity in tuple(inventory.problems):
                self._count(inventory, identity)
        self._changed(key)

    def get(self, key: ObjectKey) -> Inventory | None:
        """Return the inventory that is served under a name; None if it is of another kind."""
        prefix, name = self._applier.prefix, key.name
        if not name.startswith(prefix):
            return None
        return self._inventories.get(ObjectKey(key.namespace, name.removeprefix(prefix)))

    async def rows(self, inventory: Inventory) -> AsyncIterator[tuple[Tracked, Row]]:
        """Yield all rows of an inventory, in the order of the applier's list.

        It yields to other tasks; objects that leave the inventory meanwhile are left out.
        """
        for number, ref in enumerate(inventory.applied.refs, start=1):
            if ref.identity in inventory.flags:
                yield self._shown_in(inventory.applied.key)(ref.identity)
            if number % _BATCH == 0:
                await asyncio.sleep(0)

    def seen(self, ref: ObjectRef, new: Observed | None, *, gap: bool = False) -> None:
        """Take in the next state of an object (``observation.Told``)."""
        tracked = self._tracked.get(ref.identity)
        if tracked is None:
            return  # it carries labels, but no inventory lists it
        tracked.take(new, gap=gap)
        self._update(tracked, new.live.resource_version if new else "")

    def lists(self, owner: ObjectKey, ref: ObjectRef) -> bool:
        """Tell whether the inventory of an owner lists an object (``observation.Told``)."""
        inventory = self._inventories.get(owner)
        return inventory is not None and ref.identity in inventory.flags

    def looked(self, ref: ObjectRef, *, exists: bool | None) -> None:
        """Handle whether an object without a watch exists (``observation.Told``)."""
        tracked = self._tracked.get(ref.identity)
        if tracked is not None and tracked.seen is None:
            tracked.look(exists=exists)
            self._update(tracked, "")

    def kind_changed(self, kind: GroupKind) -> None:
        """Look at all objects of a kind again, before long (``observation.Told``)."""
        self._doubtful[kind] = None
        self._wake.set()

    async def _look_again(self) -> None:
        """Count the objects of unobserved kinds again; there may be ten thousands."""
        while self._doubtful:
            kind, _ = self._doubtful.popitem()
            for number, identity in enumerate(tuple(self._kinds.get(kind, ())), start=1):
                if tracked := self._tracked.get(identity):
                    self._recount(tracked)
                if number % _ROWS == 0:
                    await asyncio.sleep(0)

    def _recount(self, tracked: Tracked) -> None:
        lost = tracked.seen is not None and self.observation.find(tracked.ref) is None
        if lost and not self.observation.reason(tracked.ref):
            tracked.take(None)
        self._update(tracked, "")

    def _update(self, tracked: Tracked, version: str) -> None:
        identity = tracked.ref.identity
        if version.isdecimal():
            self._view.advance(int(version))
        for key in self._users.of(identity):
            inventory = self._inventories[key]
            _advance(inventory, version)
            if self._count(inventory, identity):
                self._changed(key)

    def _count(self, inventory: Inventory, identity: Identity) -> bool:
        applied, tracked = inventory.applied, self._tracked[identity]
        reason = self.observation.reason(tracked.ref)
        if not reason:
            self._read_where_needed(applied, tracked)
        return inventory.put(identity, rows.row(applied, tracked, reason))

    def _read_where_needed(self, applied: Applied, tracked: Tracked) -> None:
        seen = tracked.seen
        own = seen is not None and seen.live.owner == applied.key
        stale = own and seen is not None and not judged(tracked.ref, seen, applied.rules)
        if stale or rows.looked_for(applied, tracked):
            self.observation.read_later(tracked.ref)

    def _shown_in(self, key: ObjectKey) -> Callable[[Identity], tuple[Tracked, Row]]:
        applied = self._inventories[key].applied

        def shown(identity: Identity) -> tuple[Tracked, Row]:
            tracked = self._tracked[identity]
            return tracked, rows.row(applied, tracked, self.observation.reason(tracked.ref))

        return shown

    def _relist(self, inventory: Inventory, refs: tuple[ObjectRef, ...]) -> list[Identity]:
        """Update the list of an inventory; return objects that are new or have a new version."""
        key, after = inventory.applied.key, {ref.identity: ref for ref in refs}
        for identity in inventory.flags.keys() - after.keys():
            self._leave(inventory, identity)
        fresh = []
        for identity, ref in after.items():
            tracked = self._tracked.get(identity)
            if tracked is None:
                tracked = self._tracked[identity] = Tracked(ref=ref)
                self._kinds.setdefault(ref.gvk.group_kind, set()).add(identity)
                if found := self.observation.find(ref):
                    tracked.take(found)
            if identity not in inventory.flags or tracked.ref != ref:
                fresh.append(identity)
            tracked.ref = ref  # an applier may name another version of the kind from now on
            self._users.add(identity, key)
        self._watch(inventory)
        return fresh

    def _watch(self, inventory: Inventory) -> None:
        """Have the kinds watched that the inventory lists, if they are on this cluster."""
        watched = () if inventory.applied.remote else inventory.applied.refs
        if watched != inventory.watched:
            self.observation.list(watched)
            self.observation.unlist(inventory.watched)
            inventory.watched = watched

    def _leave(self, inventory: Inventory, identity: Identity) -> None:
        inventory.drop(identity)
        self._users.discard(identity, inventory.applied.key)
        if identity not in self._users:
            del self._tracked[identity]
            self._kinds[identity[:2]].discard(identity)

    def _forget(self, change: Change[Applied]) -> None:
        inventory = self._inventories.get(change.key)
        if inventory is not None:
            inventory.applied = replace(inventory.applied, refs=())
            self._relist(inventory, ())
            del self._inventories[change.key]
            self._dirty.pop(change.key, None)
            self._view.remove(inventory.key, revision=inventory.revision)
            self._wake.set()

    def _changed(self, key: ObjectKey) -> None:
        self._dirty[key] = None
        self._wake.set()

    def _rules(self, owner: ObjectKey | None) -> tuple[Rule, ...]:
        inventory = self._inventories.get(owner) if owner else None
        return inventory.applied.rules if inventory else ()


def _keys(applied: Applied) -> tuple[str, ...]:
    return tuple(rule.key for rule in applied.rules)


def _advance(inventory: Inventory, version: str) -> None:
    """Set the version of the inventory to that of its newest object (KEP-5504: numbers)."""
    if version.isdecimal():
        inventory.revision = max(inventory.revision, int(version))
