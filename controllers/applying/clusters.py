"""The watches and the waits of each cluster.

Those of the controller's own cluster exist from the start. Those of another cluster begin with the
first object whose ``spec.kubeConfig`` names it, and end with the last.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from controllers.applying.applier import Applier
from controllers.waking import Enqueue
from toolkit.apply.clock import ServerClock
from toolkit.apply.live import LiveSet
from toolkit.apply.pace import Pace
from toolkit.apply.wait import Waits
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube.client import Client
from toolkit.kube.remote import RemoteClients
from toolkit.objects import ObjectKey, ObjectRef

logger = logging.getLogger(__name__)

LOST: Final = "it was deleted, or lost the labels of its owner"
"""A labelled watch shows both as a deletion; ``reporting.correction`` tells them apart later."""
_RESTART_SECONDS: Final = 10.0


@dataclass(slots=True, kw_only=True, eq=False)
class Cluster:
    """One API server: its client without impersonation, its watches and its waits.

    - ``number`` is unique in this process, and 0 for the own cluster. It separates a cluster from
      earlier ones with the same address, whose cached state does not apply.
    - ``rivals`` has, for each applier, the objects that drifted and the cause, until it is
      reported.
    - ``users`` are the appliers that apply to this cluster.
    """

    number: int
    client: Client
    live: LiveSet
    waits: Waits
    clock: ServerClock
    pace: Pace
    rivals: dict[ObjectKey, dict[ObjectRef, str]] = field(default_factory=dict)
    users: set[ObjectKey] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def forget(self, key: ObjectKey) -> None:
        """Drop the watches, waits and reports of an applier."""
        self.waits.cancel(key)
        self.live.forget(key)
        self.rivals.pop(key, None)
        self.users.discard(key)


class Clusters:
    """All clusters in use by the appliers of one kind.

    ``enqueue`` is called when a cluster shows drift, or the end of a wait. Applied objects are
    recognized by the owner labels of ``group`` and the fields of the field manager ``manager``.
    """

    def __init__(  # noqa: PLR0913 - the parts
        self,
        own: Client,
        remotes: RemoteClients,
        enqueue: Enqueue,
        *,
        group: str,
        manager: str,
        evaluates: Evaluates,
    ) -> None:
        self._remotes = remotes
        self._enqueue = enqueue
        self._own = own
        self._labels = group
        self._manager = manager
        self._evaluates = evaluates
        self._open: dict[Client, Cluster] = {}
        self._numbers = count()
        self._group: asyncio.TaskGroup | None = None
        self._local = self._cluster(own)

    @property
    def local(self) -> Cluster:
        """Return the controller's own cluster."""
        return self._local

    async def run(self) -> None:
        """Follow all clusters until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for cluster in self._open.values():
                    self._start(cluster)
                await asyncio.Event().wait()
        finally:
            self._group = None

    @asynccontextmanager
    async def of(self, obj: Applier) -> AsyncIterator[Cluster]:
        """Yield the cluster to which the object applies; its client stays open for the block.

        Raises:
            PenstockError: ``spec.kubeConfig`` cannot be read, or is not allowed.
        """
        key = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        way: AbstractAsyncContextManager[Client] = nullcontext(self._own)
        if obj.spec.kube_config is not None:
            way = self._remotes.client(obj.metadata.namespace, obj.spec.kube_config)
        async with way as client:
            cluster = self._open.get(client) or self._cluster(client)
            for other in tuple(self._open.values()):
                if other is not cluster and key in other.users:
                    self._leave(other, key)
            cluster.users.add(key)
            yield cluster

    def forget(self, key: ObjectKey) -> None:
        """Drop the watches, waits and reports of a deleted applier in all clusters."""
        for cluster in tuple(self._open.values()):
            if key in cluster.users:
                self._leave(cluster, key)

    def _leave(self, cluster: Cluster, key: ObjectKey) -> None:
        cluster.forget(key)
        if not cluster.users and cluster is not self._local:
            del self._open[cluster.client]
            if cluster.task is None:
                self._remotes.release(cluster.client)
            else:
                cluster.task.cancel()

    def _cluster(self, client: Client) -> Cluster:
        def drifted(
            owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
        ) -> None:
            who = ", ".join(managers) or "an unknown field manager"
            rivals = cluster.rivals.setdefault(owner, {})
            rivals[ref] = LOST if deleted else f"it was changed by {who}"
            self._enqueue(owner, "drift")

        def health_changed(owner: ObjectKey, ref: ObjectRef) -> None:
            cluster.waits.changed(owner, ref)

        def gone(owner: ObjectKey) -> None:
            self._enqueue(owner, "gone")

        live = LiveSet(
            client,
            group=self._labels,
            manager=self._manager,
            evaluates=self._evaluates,
            on_drift=drifted,
            on_health=health_changed,
            on_gone=gone,
            on_claim=lambda owner: self._enqueue(owner, "claimed"),
        )
        waits = Waits(live, lambda owner: self._enqueue(owner, "health"))
        cluster = Cluster(
            number=next(self._numbers),
            client=client,
            live=live,
            waits=waits,
            clock=ServerClock(),
            pace=Pace(),
        )
        self._open[client] = cluster
        self._remotes.hold(client)
        self._start(cluster)
        return cluster

    def _start(self, cluster: Cluster) -> None:
        if self._group is not None and cluster.task is None:
            cluster.task = self._group.create_task(_follow(cluster))
            # The client must stay open until the last watch has ended.
            cluster.task.add_done_callback(lambda _: self._remotes.release(cluster.client))


async def _follow(cluster: Cluster) -> None:
    """Run the watches and waits of one cluster until cancelled.

    A tenant may control the API server, so a failure here must not end the watches of other
    clusters.
    """
    while True:
        (ended,) = await asyncio.gather(_watch(cluster), return_exceptions=True)
        logger.error(
            "watches of a cluster failed, they are restarted",
            exc_info=ended,
            extra={"server": cluster.client.server},
        )
        await asyncio.sleep(_RESTART_SECONDS)


async def _watch(cluster: Cluster) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.live.run())
        group.create_task(cluster.waits.run())
