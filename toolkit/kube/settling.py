"""Set up objects for the API server, keep them up to date, and remove them at the end.

One replica at a time does this. The existing objects are read before anything is written. Every
change may require an update, and a failure is tried again. When Penstock's namespace is deleted,
everything is removed before the Pods end. (The namespace controller waits for some seconds before
it begins.) The caller decides what is set up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, dig

logger = logging.getLogger(__name__)

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 30.0
_PACE: Final = 0.2


class Settling:
    """One thing that is kept settled; ``wake`` it when it may no longer be."""

    def __init__(self, client: Client, *, namespace: str, failure: str) -> None:
        self.leaving = False
        """Whether our namespace is being deleted, or will be soon."""
        self._failure = failure
        self._dirty = asyncio.Event()
        self._namespace = Informer(
            client,
            _NAMESPACE,
            decode=msgspec.json.decode,
            field_selector=f"metadata.name={namespace}",
            metadata_only=True,
        )
        self._namespace.subscribe(self._namespace_changed)

    def wake(self) -> None:
        """Have it settled soon."""
        self._dirty.set()

    async def run(
        self,
        informers: Iterable[Informer[Any]],
        *,
        settle: Callable[[], Awaitable[None]],
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        """Follow the informers, and settle until cancelled; ``leave`` instead when we must go."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._namespace, *informers):
                group.create_task(informer.run())
                # Read the existing objects before anything is written.
                await informer.wait_synced()
            self.wake()
            await self._keep(settle, leave)

    async def _keep(
        self, settle: Callable[[], Awaitable[None]], leave: Callable[[], Awaitable[None]]
    ) -> None:
        pause = _PAUSE
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await (leave() if self.leaving else settle())
                pause = _PAUSE
                # If another client keeps reverting the change, this prevents a hot loop.
                await asyncio.sleep(_PACE)
            except ApiError as exc:
                logger.error(self._failure, extra={"error": str(exc)})  # noqa: TRY400 - one line
                self._dirty.set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    def _namespace_changed(self, change: Change[Json]) -> None:
        if change.new is None or dig(change.new, "metadata", "deletionTimestamp"):
            self.leaving = True
            self._dirty.set()
