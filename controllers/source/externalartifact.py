"""ExternalArtifacts: others make them, we keep what they uploaded.

Nothing of ours reconciles the kind, and no finalizer holds an object back until its artifacts are
deleted: its makers may not wait for us. So the kind is followed: an object that goes takes its
artifacts along, one that names a new artifact leaves older ones to the retention that all sources
have. What was missed meanwhile is found by holding the store against the API server, at the start
and every hour.
"""

import asyncio
import logging
from typing import Final

import msgspec

from crds import EXTERNAL_ARTIFACT
from crds.source_external import ExternalArtifact
from toolkit.artifact import orphans
from toolkit.artifact.store import Owner, Store
from toolkit.errors import PenstockError
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind, ObjectKey

logger = logging.getLogger(__name__)

KIND: Final = GroupVersionKind(*EXTERNAL_ARTIFACT.gvk)

PERMISSIONS: Final = (
    # Followed by every replica; the author of an object writes it.
    Rule(
        groups=(KIND.group,), resources=(EXTERNAL_ARTIFACT.plural,), verbs=("get", "list", "watch")
    ),
)


def start(
    manager: Manager, options: Options, *, store: Store, lease: str
) -> Informer[ExternalArtifact]:
    """Wire the janitor into the manager; return the informer for anyone who reads the kind."""
    informer: Informer[ExternalArtifact] = Informer(
        manager.client,
        KIND,
        decode=msgspec.json.Decoder(ExternalArtifact).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    janitor = Janitor(manager.client, store)
    informer.subscribe(janitor.saw)
    manager.add_informer(informer)
    manager.add_elected(janitor.run, lease=lease)
    return informer


class Janitor:
    """Deletes artifacts that nobody needs any more, while it runs."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store
        self._changed: dict[ObjectKey, ExternalArtifact | None] = {}
        self._wake = asyncio.Event()
        self._running = False

    def saw(self, change: Change[ExternalArtifact]) -> None:
        """Take note of an object that went, or that names another artifact than before."""
        before = change.old.status.artifact if change.old else None
        after = change.new.status.artifact if change.new else None
        if self._running and (change.new is None or (before and before != after)):
            self._changed[change.key] = change.new
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; run it in one replica only."""
        self._running = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(orphans.keep_sweeping(self._store, KIND.kind, self.exists))
                group.create_task(self._keep_tidying())
        finally:
            self._running = False
            self._changed.clear()

    async def exists(self, owner: Owner) -> bool:
        """Ask the API server for the object. Raises ``TransientError`` if it does not answer."""
        try:
            await self._client.get(KIND, owner.name, owner.namespace)
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
                    await self._tidy(
                        Owner(kind=KIND.kind, namespace=key.namespace, name=key.name), obj
                    )
                except PenstockError as error:
                    # the next sweep, or the next artifact, brings another chance
                    logger.warning(
                        "artifacts not cleaned up", extra={"object": str(key), "error": str(error)}
                    )

    async def _tidy(self, owner: Owner, obj: ExternalArtifact | None) -> None:
        if obj is not None:
            await self._store.collect(owner, current=obj.status.artifact)
        elif not await self.exists(owner):  # one of that name may have been made since
            await self._store.remove(owner)
