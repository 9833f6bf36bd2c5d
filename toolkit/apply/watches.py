"""The watches of applied objects: one per kind, shared by all that apply the kind.

A labelled watch sees every applied object of a kind in the cluster; a plain one sees all objects
of a kind in one namespace, for health checks of objects that we do not apply. A watch lives as
long as it has users. Initial lists are fetched a few at a time. The opener of the watches says what
is kept of each object.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from toolkit.apply.order import GroupKind
from toolkit.kube import errors
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

T = TypeVar("T")

_STARTING: Final = 4
_START_SECONDS: Final = 10.0
_REFUSALS: Final = frozenset({401, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects of a watch; ``namespace`` is None for a labelled watch."""

    gvk: GroupVersionKind
    namespace: str | None = None

    @property
    def key(self) -> tuple[GroupKind, str | None]:
        """Return the identity of the watch: versions of a kind show the same objects."""
        return self.gvk.group_kind, self.namespace


@dataclass(slots=True, eq=False)
class Watch(Generic[T]):
    """A running watch and its users."""

    scope: Scope
    informer: Informer[T]
    users: set[ObjectKey] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    @property
    def current(self) -> bool:
        """Tell whether its cache can be relied on."""
        return self.informer.synced and self.informer.last_error is None

    @property
    def refused(self) -> bool:
        """Tell whether the server will not let us watch this."""
        error = self.informer.last_error
        unserved = isinstance(error, errors.NoMatchError)
        return error is not None and (unserved or error.status in _REFUSALS)


class Watches(Generic[T]):
    """Starts, shares and stops watches; ``make`` opens one for a scope."""

    def __init__(self, make: Callable[[Scope], Informer[T]]) -> None:
        self._make = make
        self._watches: dict[tuple[GroupKind, str | None], Watch[T]] = {}
        self._slots = asyncio.Semaphore(_STARTING)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run all watches, including those added later, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for watch in self._watches.values():
                    self._start(watch)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def use(self, user: ObjectKey, wanted: Collection[Scope], *, labelled: bool) -> None:
        """Set the labelled (or else plain) watches that a user needs from now on.

        A watch that the server refused is tried again at once.
        """
        keys = {scope.key for scope in wanted}
        for key, watch in tuple(self._watches.items()):
            if user in watch.users and key not in keys and (key[1] is None) is labelled:
                watch.users.discard(user)
                if not watch.users:
                    self._stop(key)
        for scope in wanted:
            self._open(scope).users.add(user)

    def find(self, ref: ObjectRef) -> Watch[T] | None:
        """Return the watch that shows the object; the labelled one if both exist and it does."""
        labelled = self._watches.get((ref.gvk.group_kind, None))
        plain = self._watches.get((ref.gvk.group_kind, ref.namespace))
        if labelled and plain and labelled.informer.get(ref.key) is None:
            return plain
        return labelled or plain

    def used_by(self, user: ObjectKey) -> Iterator[Watch[T]]:
        """Yield the watches of the user."""
        return (watch for watch in self._watches.values() if user in watch.users)

    def _open(self, scope: Scope) -> Watch[T]:
        watch = self._watches.get(scope.key)
        if watch is not None and not watch.refused:
            return watch
        users = set() if watch is None else watch.users
        if watch is not None:
            self._stop(scope.key)
        fresh = self._watches[scope.key] = Watch(scope, self._make(scope), users)
        self._start(fresh)
        return fresh

    def _start(self, watch: Watch[T]) -> None:
        if self._group is not None:
            watch.task = self._group.create_task(self._follow(watch.informer))

    def _stop(self, key: tuple[GroupKind, str | None]) -> None:
        watch = self._watches.pop(key)
        if watch.task is not None:
            watch.task.cancel()

    async def _follow(self, informer: Informer[T]) -> None:
        async with asyncio.TaskGroup() as group, self._slots:
            group.create_task(informer.run())
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await informer.wait_synced()
            except TimeoutError:
                return  # This watch goes on trying, but others may start.
