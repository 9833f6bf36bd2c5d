"""A cache that is filled only when it is needed.

Until a caller needs it, such a cache causes no work in this process or in the API server. From then
on it is like any other cache, and stays: it will probably be needed again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, ObjectKey

T = TypeVar("T")


class Later(Generic[T]):
    """The cache of an informer that runs from the first ``need`` on.

    Nobody waits for it before that. It is empty then, so ask it only after ``need``.
    """

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        self._needed = asyncio.Event()

    def need(self) -> None:
        """Have the cache filled, and kept current from now on."""
        self._needed.set()

    @property
    def gvk(self) -> GroupVersionKind:
        """Return the kind of its objects."""
        return self._informer.gvk

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once, or is not needed yet."""
        return self._informer.synced or not self._needed.is_set()

    async def wait_synced(self) -> None:
        """Wait until the cache is complete, if it is needed."""
        if self._needed.is_set():
            await self._informer.wait_synced()

    async def wait_attempted(self) -> None:
        """Wait until the first attempt to fill the cache has ended, if it is needed."""
        if self._needed.is_set():
            await self._informer.wait_attempted()

    def get(self, key: ObjectKey) -> T | None:
        """Return the object as last seen."""
        return self._informer.get(key)

    def items(self) -> Mapping[ObjectKey, T]:
        """Return a live, read-only view."""
        return self._informer.items()

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Call ``handler`` for every change, and at once for all that is here."""
        self._informer.subscribe(handler)

    async def run(self) -> None:
        """Follow the server once that is needed, until cancelled."""
        await self._needed.wait()
        await self._informer.run()
