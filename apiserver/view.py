"""The state of one resource in memory: sorted objects, and their recent changes.

Reads never wait and writes are fast: names are kept sorted, there is one snapshot between two
changes, and all watches share one log. Past snapshots are made by reverting the log, so pages of
one list agree with each other while objects change.

It does no IO. Projections call ``put`` and ``remove`` from informers' handlers, with the revision
(``metadata.resourceVersion``) of the backing object of the event.
"""

import asyncio
import time
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from apiserver.history import Bounds, History
from apiserver.item import Event, Item
from apiserver.position import Clock
from toolkit.objects import GroupVersionKind, Json, ObjectKey, key_of

_AT_ONCE: Final = 32
"""Watches that are woken in one turn of the loop."""
_PATIENCE: Final = 30.0
"""Seconds for which a cache may hear of no changes: servers restart, and leaders are elected."""
_UNORDERED: Final = 0
"""The version of objects that existed before reads were allowed."""
_FLOORS: Final = 1_024
"""Namespaces whose lowest version is kept apart."""
_PAST: Final = 16
"""Snapshots of the past that are kept; each is a tuple of references."""


class Source(Protocol):
    """A cache that the view is made from; ``toolkit.kube.informer.Informer`` is one."""

    gvk: GroupVersionKind

    @property
    def synced(self) -> bool:
        """Tell whether it has been complete once."""

    @property
    def revision(self) -> int:
        """Return the revision up to which it has heard of everything."""

    @property
    def last_error(self) -> Exception | None:
        """Return why it does not hear of changes at the moment."""

    @property
    def failing_for(self) -> float:
        """Return for how many seconds that has been so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All objects of one moment, sorted by namespace and name; never changes."""

    position: int
    items: tuple[Item, ...]

    def within(self, namespace: str) -> "Snapshot":
        """Return the part of one namespace; all of it for the empty string."""
        if not namespace:
            return self
        start = bisect_left(self.items, (namespace, ""), key=attrgetter("order"))
        end = bisect_left(self.items, (namespace + "\0", ""), key=attrgetter("order"))
        return Snapshot(position=self.position, items=self.items[start:end])

    def start(self, namespace: str, name: str) -> int:
        """Return the index of the first item at or after a name."""
        return bisect_left(self.items, (namespace, name), key=attrgetter("order"))


class View:
    """One resource's objects; ``tag`` identifies this process, below 1000, new at each start."""

    def __init__(
        self,
        *,
        kind: str,
        api_version: str,
        tag: int,
        clock: Callable[[], float] = time.monotonic,
        bounds: Bounds | None = None,
    ) -> None:
        self.kind = kind
        self.api_version = api_version
        self.ready = False
        self.birth = 0
        """The version at which the view was complete; before it there was no order."""
        self.clock: Final = Clock(tag=tag, time=clock)
        self.history: Final = History(time=clock, bounds=bounds or Bounds())
        self._time = clock
        self._items: dict[tuple[str, str], Item] = {}
        self._order: list[tuple[str, str]] = []
        self._snapshot: Snapshot | None = None
        self._past: OrderedDict[int, Snapshot] = OrderedDict()
        self._floors: dict[str, int] = {}
        """By namespace: no object is shown at a lower version; ``""`` is for all of them."""
        self._waiters: dict[str, set[asyncio.Future[int]]] = {}
        self._woken: deque[tuple[asyncio.Future[int], int]] = deque()
        self._sources: list[Source] = []

    def follow(self, source: Source) -> None:
        """Add a cache from which this view is computed.

        Until it has synced, reads are refused with its name. While a cache is disconnected from the
        API server, versions claim no newer revisions than before; after half a minute reads are
        refused too.
        """
        self._sources.append(source)

    @property
    def missing(self) -> list[str]:
        """Return the kinds whose caches are not complete yet."""
        return [source.gvk.kind for source in self._sources if not source.synced]

    @property
    def behind(self) -> list[str]:
        """Return the kinds whose caches have not heard of changes for long."""
        return [each.gvk.kind for each in self._sources if each.failing_for > _PATIENCE]

    def put(self, obj: Json, *, revision: int) -> None:
        """Add or replace an object; do nothing if only its resource version would change.

        ``obj`` needs ``metadata`` with name, namespace and uid; it must not be changed afterwards.
        """
        typed: Json = {"apiVersion": self.api_version, "kind": self.kind}
        obj = typed | obj
        key = key_of(obj)
        old = self._items.get((key.namespace, key.name))
        if old is not None and old.same(obj):
            self.advance(revision)
            return
        if old is not None and old.uid != str(obj["metadata"].get("uid", "")):
            self.remove(key, revision=revision)
            old = None
        key = key if old is None else old.key  # one for all versions that the history keeps
        if not self.ready:
            self.clock.advance(revision)
            self._store(Item(key, obj, _UNORDERED)).rest()
            return
        item = Item(key, obj, self.clock.tick(self._known(revision)))
        self._store(item)
        self._happened(item.version, key, old, item)

    def remove(self, key: ObjectKey, *, revision: int) -> None:
        """Remove an object; do nothing if there is none."""
        old = self._items.pop((key.namespace, key.name), None)
        if old is None:
            self.advance(revision)
            return
        del self._order[bisect_left(self._order, old.order)]
        self._snapshot = None
        if self.ready:
            self._happened(self.clock.tick(self._known(revision)), key, old, None)
        else:
            self.clock.advance(revision)

    def advance(self, revision: int) -> None:
        """Note that the backing objects are at this revision without a change here."""
        self.clock.advance(self._known(revision))

    def complete(self, *, started: int = 0) -> None:
        """Allow reads: all existing objects have been added. From now on changes are ordered.

        ``started`` is the revision of a write of this process (``apiserver.origin``). All versions
        that other processes returned before are lower, so every object begins at a version above
        it.
        """
        if self.ready:
            return
        # Clients of an earlier process know objects that were deleted before our start, with their
        # versions. These versions must be in the past here too, not in a future to wait for.
        self.clock.advance(max((source.revision for source in self._sources), default=0))
        self.clock.advance(started)
        self.ready = True
        self.birth = self._floors[""] = self.clock.issue()
        self.history.begin(self.birth)

    def surpass(self, version: int, namespace: str) -> int:
        """Show the objects of a namespace, or all, with versions above another replica's version.

        The client may know any object at that version, and lists after a 410 without saying so. The
        version may be invented, so only clients of the namespace are affected. Returns the lowest
        version of the shown objects.

        Raises:
            StatusError: 410, there is no such version.
        """
        if version >= self._floor(namespace):
            self._floors[namespace] = self.clock.beyond(version)
            self._snapshot = None
            if len(self._floors) > _FLOORS:
                self._floors = {"": max(self._floors.values())}
        return self._floor(namespace)

    def get(self, key: ObjectKey) -> Item | None:
        """Return one object."""
        order = (key.namespace, key.name)
        return self._shown(order) if order in self._items else None

    def __len__(self) -> int:
        return len(self._items)

    def snapshot(self, namespace: str = "") -> Snapshot:
        """Return all objects, or those of a namespace, at the current version."""
        position = self.clock.issue()
        current = self._snapshot
        if current is None:
            start = bisect_left(self._order, (namespace, ""))
            end = bisect_left(self._order, (namespace + "\0", "")) if namespace else None
            items = tuple(map(self._shown, self._order[start:end]))
            if namespace:
                return Snapshot(position=position, items=items)
            current = Snapshot(position=position, items=items)
        elif current.position != position:
            current = Snapshot(position=position, items=current.items)
        self._snapshot = current
        return current.within(namespace)

    def past(self, position: int) -> Snapshot | None:
        """Return the objects at a version of this process; None if it is unknown."""
        if position == self.clock.latest:
            return self.snapshot()
        known = self._past.get(position)
        if known is None:
            if not self.clock.issued(position) or position < self.history.floor:
                return None
            known = self._undone(position)
            self._past[position] = known
            if len(self._past) > _PAST:
                self._past.popitem(last=False)
        return known if position >= self.history.floor else None

    def position(self) -> int:
        """Hand out the current version, for a bookmark."""
        return self.clock.issue()

    async def changed(self, namespace: str, *, within: float) -> int:
        """Wait for a change in a namespace (or any); return the place where to read on.

        Nothing that concerns the namespace happened before that place. Callers read to the end of
        the log first, with no ``await`` in between.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[int] = loop.create_future()
        waiters = self._waiters.setdefault(namespace, set())
        waiters.add(waiter)
        timer = loop.call_later(within, self._expire, namespace, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            waiters.discard(waiter)
            if not waiters and self._waiters.get(namespace) is waiters:
                del self._waiters[namespace]

    def _expire(self, namespace: str, waiter: asyncio.Future[int]) -> None:
        """Wake a waiting watch at the end of its bookmark interval, unless it is about to wake."""
        if waiter in self._waiters.get(namespace, ()):
            _tell(waiter, self.history.end)

    def wake(self) -> None:
        """Wake all waiting watches."""
        for namespace in list(self._waiters):
            self._wake(namespace, self.history.end)

    def _known(self, revision: int) -> int:
        """Return the revision to claim, which does not grow while a source is disconnected."""
        behind = any(source.last_error is not None for source in self._sources)
        return 0 if behind else revision

    def _shown(self, order: tuple[str, str]) -> Item:
        """Return an object at its own version, or at the lowest that may be shown."""
        item, floor = self._items[order], self._floor(order[0])
        if item.version < floor:
            old, item = item, item.at(floor)
            item.rest()
            self._items[order] = item
            old.settle()  # the history may keep it
        return item

    def _floor(self, namespace: str) -> int:
        return max(self._floors.get("", 0), self._floors.get(namespace, 0))

    def _store(self, item: Item) -> Item:
        order = item.order
        if order not in self._items:
            insort(self._order, order)
        self._items[order] = item
        self._snapshot = None
        return item

    def _happened(self, version: int, key: ObjectKey, old: Item | None, new: Item | None) -> None:
        place = self.history.end
        olds = () if old is None else (old,)
        self.history.append(Event(version=version, at=self._time(), key=key, olds=olds, new=new))
        for stale in [each for each in self._past if each < self.history.floor]:
            del self._past[stale]
        for namespace in ("", key.namespace):
            self._wake(namespace, place)

    def _wake(self, namespace: str, place: int) -> None:
        """Wake the waiting watches of a namespace, some at a time.

        Other tasks run in between, and watches that wake later have more events to send at once.
        """
        waiters = self._waiters.pop(namespace, None)
        if not waiters:
            return
        idle = not self._woken
        self._woken.extend((waiter, place) for waiter in waiters)
        if idle:
            self._wake_some()

    def _wake_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._woken))):
            waiter, place = self._woken.popleft()
            _tell(waiter, place)
        if self._woken:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _undone(self, position: int) -> Snapshot:
        """Return the objects of an earlier version: the newest, with what came after undone."""
        events: Sequence[Event] = (
            self.history.read(self.history.after(position), self.history.end) or ()
        )
        items = {item.order: item for item in self.snapshot().items}
        for event in reversed(events):
            order = (event.key.namespace, event.key.name)
            if event.olds:
                items[order] = event.olds[0]
            else:
                items.pop(order, None)
        return Snapshot(position=position, items=tuple(items[order] for order in sorted(items)))


def _tell(waiter: asyncio.Future[int], place: int) -> None:
    if not waiter.done():
        waiter.set_result(place)
