"""The watches of the process: one per kind, shared by all resources that use the kind.

The API server encodes and sends each event once per watch, and each resource reads other fields of
the object. So a kind is watched once, every reader gets the event, and only the results of the
readers stay in memory. If one reader fails on an object, the object is skipped for all, as in
``toolkit.kube.informer``.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind

T = TypeVar("T")


class Runner(Protocol):
    """Runs informers (``toolkit.kube.manager.Manager``)."""

    @property
    def client(self) -> Client:
        """Return the client of the process."""

    def add_informer(self, informer: Informer[Any]) -> None:
        """Run an informer."""


class Watches:
    """Gives each resource its part of a watch; call it before the process runs."""

    def __init__(self, manager: Runner) -> None:
        self._manager = manager
        self._shared: dict[GroupVersionKind, _Shared] = {}

    def follow(self, gvk: GroupVersionKind, read: Callable[[bytes], T]) -> "Part[T]":
        """Return the results of ``read`` for the objects of a kind; the manager runs the watch."""
        shared = self._shared.get(gvk)
        if shared is None:
            shared = self._shared[gvk] = _Shared(self._manager, gvk)
        return shared.part(read)


class Part(Generic[T]):
    """One reader's part of a shared cache; a source of a view (``apiserver.view.Source``)."""

    def __init__(self, informer: Informer[tuple[Any, ...]], index: int) -> None:
        self.gvk = informer.gvk
        self._informer = informer
        self._index = index

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once."""
        return self._informer.synced

    @property
    def revision(self) -> int:
        """Return the revision up to which the cache has heard of everything."""
        return self._informer.revision

    @property
    def last_error(self) -> Exception | None:
        """Return why it does not hear of changes at the moment."""
        return self._informer.last_error

    @property
    def failing_for(self) -> float:
        """Return for how many seconds that has been so."""
        return self._informer.failing_for

    async def wait_synced(self) -> None:
        """Wait until the cache is complete."""
        await self._informer.wait_synced()

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Call ``handler`` for every change from now on, and at once for all that is here."""
        index = self._index

        def told(change: Change[tuple[Any, ...]]) -> None:
            old, new = change.old, change.new
            handler(
                Change(
                    change.type,
                    change.key,
                    None if old is None else old[index],
                    None if new is None else new[index],
                    gap=change.gap,
                )
            )

        self._informer.subscribe(told)


class _Shared:
    """The watch of one kind, with all its readers."""

    def __init__(self, manager: Runner, gvk: GroupVersionKind) -> None:
        self._readers: list[Callable[[bytes], Any]] = []
        self._informer: Informer[tuple[Any, ...]] = Informer(manager.client, gvk, decode=self._read)
        manager.add_informer(self._informer)

    def part(self, read: Callable[[bytes], T]) -> Part[T]:
        self._readers.append(read)
        return Part(self._informer, len(self._readers) - 1)

    def _read(self, raw: bytes) -> tuple[Any, ...]:
        return tuple(read(raw) for read in self._readers)
