"""Delete the artifacts of deleted objects that have no finalizer.

Without a finalizer, an object can be deleted before its artifacts. Some objects have none, and a
user may remove it. So the janitor watches the kind, and deletes the artifacts of an object when the
object is deleted. To find deletions that it missed, it compares the store with the API server at
the start and every hour.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from crds.meta import Artifact, ObjectMeta
from toolkit.artifact import orphans
from toolkit.artifact.store import Owner, Store
from toolkit.errors import PenstockError
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.reconciliation import FINALIZER
from toolkit.objects import ObjectKey

logger = logging.getLogger(__name__)


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class Offering(Protocol):
    """The fields of a kind that has artifacts."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return the metadata."""

    @property
    def status(self) -> _Status:
        """Return the status, which has the artifact."""


T = TypeVar("T", bound=Offering)


def unheld(obj: Offering) -> bool:
    """Tell whether an object may be deleted before its artifacts."""
    return FINALIZER not in obj.metadata.finalizers


class Janitor(Generic[T]):
    """Deletes unused artifacts of one kind while it runs.

    - ``leaves`` tells whether an object has no finalizer.
    - ``uploads``: clients upload the artifacts. Then older artifacts of an object are deleted by
      the retention rules, and an object may have artifacts before ``informer`` shows it.
    - ``parts``: ``informer`` shows only some objects of the kind.
    """

    def __init__(  # noqa: PLR0913 - the properties of a kind
        self,
        client: Client,
        store: Store,
        informer: Informer[T],
        *,
        leaves: Callable[[T], bool] = lambda _: True,
        uploads: bool = False,
        parts: bool = False,
    ) -> None:
        self._client = client
        self._store = store
        self._informer = informer
        self._leaves = leaves
        self._uploads = uploads
        self._asks = uploads or parts
        self._changed: dict[ObjectKey, T | None] = {}
        self._wake = asyncio.Event()
        self._running = False
        informer.subscribe(self._saw)

    async def run(self) -> None:
        """Run until cancelled; only one replica may run it at a time."""
        await self._informer.wait_synced()  # else the API server is asked for every object
        self._running = True
        try:
            async with asyncio.TaskGroup() as group:
                kind = self._informer.gvk.kind
                group.create_task(orphans.keep_sweeping(self._store, kind, self._exists))
                group.create_task(self._keep_tidying())
        finally:
            self._running = False
            self._changed.clear()

    def _saw(self, change: Change[T]) -> None:
        """Queue an object that was deleted, or whose artifact has changed."""
        if not self._running or change.old is None:
            return
        before, new = change.old.status.artifact, change.new
        if new is None:
            noted = self._leaves(change.old)
        else:
            noted = self._uploads and before is not None and before != new.status.artifact
        if noted:
            self._changed[change.key] = new
            self._wake.set()

    async def _exists(self, owner: Owner) -> bool:
        """Tell whether an object exists; ask the API server if the informer does not show it.

        Raises:
            TransientError: the API server does not answer.
        """
        if self._informer.get(ObjectKey(owner.namespace, owner.name)) is not None:
            return True
        try:
            await self._client.get(self._informer.gvk, owner.name, owner.namespace)
        except NotFoundError:
            return False
        return True

    async def _keep_tidying(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._changed:
                key = next(iter(self._changed))
                obj = self._changed.pop(key)
                try:
                    await self._tidy(key, obj)
                except PenstockError as error:
                    # The next sweep, or the next artifact of the object, tries again.
                    logger.warning(
                        "artifacts not cleaned up", extra={"object": str(key), "error": str(error)}
                    )

    async def _tidy(self, key: ObjectKey, obj: T | None) -> None:
        owner = Owner(kind=self._informer.gvk.kind, namespace=key.namespace, name=key.name)
        if obj is not None:
            await self._store.collect(owner, current=obj.status.artifact)
            return
        # An object with the same name may have been created since.
        if self._informer.get(key) is None and not (self._asks and await self._exists(owner)):
            await self._store.remove(owner)
