"""Delete the artifacts of objects that go without waiting for us.

No finalizer holds such an object back until its artifacts are deleted. So its kind is followed: an
object that goes takes its artifacts along. What was missed meanwhile is found by holding the store
against the API server, at the start and every hour.
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
from toolkit.objects import ObjectKey

logger = logging.getLogger(__name__)


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class Offering(Protocol):
    """What every kind has that offers artifacts."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and the like."""

    @property
    def status(self) -> _Status:
        """Return what is offered."""


T = TypeVar("T", bound=Offering)


class Janitor(Generic[T]):
    """Deletes artifacts of one kind that nobody needs any more, while it runs.

    ``leaves`` tells which objects go without waiting. With ``uploads``, others store the artifacts:
    then an object that names a new artifact leaves older ones to the retention that all sources
    have, and may have an artifact that ``informer`` does not show yet. With ``parts``, ``informer``
    shows some objects of the kind only.
    """

    def __init__(  # noqa: PLR0913 - what a kind is like
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
        """Work until cancelled; run it in one replica only."""
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
        """Take note of an object that went, or that names another artifact than before."""
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
        """Ask the API server for an object that the informer does not show.

        Raises:
            TransientError: it does not answer.
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
                    # the next sweep, or the next artifact, brings another chance
                    logger.warning(
                        "artifacts not cleaned up", extra={"object": str(key), "error": str(error)}
                    )

    async def _tidy(self, key: ObjectKey, obj: T | None) -> None:
        owner = Owner(kind=self._informer.gvk.kind, namespace=key.namespace, name=key.name)
        if obj is not None:
            await self._store.collect(owner, current=obj.status.artifact)
            return
        # one of that name may have been made since
        if self._informer.get(key) is None and not (self._asks and await self._exists(owner)):
            await self._store.remove(owner)
