"""Delete the release and the HelmChart of a deleted HelmRelease.

If the HelmRelease is suspended, the release stays. The HelmChart goes all the same, because nobody
else uses it; it may be in a namespace where the tenant can delete nothing. If the service account
to uninstall with does not exist, or the cluster is permanently unreachable, the release stays
(``controllers.applying.deleting``), unless the account went with its namespace.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from controllers.applying import deleting, denials, homes
from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.identity import Identities
from controllers.helm.deciding import snapshots
from controllers.helm.running import inventories, unrecorded
from controllers.helm.running.draft import Draft, Pass
from controllers.helm.running.engine import Target
from controllers.helm.running.memory import Memory
from controllers.helm.running.records import Records
from controllers.helm.running.uninstalling import Uninstaller, UninstallError
from controllers.helm.templates import Templates
from toolkit import inventory
from toolkit.objects import ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmReleaseFinalizer:
    """Finalizes deleted HelmReleases."""

    clusters: Clusters
    identities: Identities
    memory: Memory
    records: Records
    templates: Templates
    uninstaller: Uninstaller
    serving: Callable[[Cluster], str]

    async def finalize(self, rec: Pass) -> None:
        """Uninstall the release, delete the HelmChart, and drop all caches of the HelmRelease.

        Raises:
            UninstallError: the release could not be uninstalled.
            WaitingError: some objects of the release still exist.
        """
        draft = Draft(rec)
        if not rec.obj.spec.suspend:
            with denials.explaining():
                await self._uninstall(draft)
        await self.templates.reconcile(draft)
        self.clusters.forget(rec.key)
        self.memory.forget(rec.key)
        self.records.forget(rec.key)
        self.templates.forget(rec.key)

    async def _uninstall(self, draft: Draft) -> None:
        status = draft.obj.status
        going = inventories.listed(status)
        if not (status.storage_namespace or going):
            return
        async with AsyncExitStack() as until_gone:
            way = await deleting.way(draft.rec, self.clusters, self.identities, until_gone, going)
            if way is None:
                return
            if status.storage_namespace:
                target = self._target(draft, way)
                going = await self._gone(draft, target, way)
                entries = {"entries": inventory.encode(going)}
                draft.note({"history": None, "storageNamespace": None, "inventory": entries})
            if not way.last:
                await deleting.require_gone(draft.rec, way.client, going)

    async def _gone(self, draft: Draft, target: Target, way: deleting.Way) -> tuple[ObjectRef, ...]:
        """Uninstall the release, and return the objects that are still being deleted.

        Raises:
            UninstallError: this failed, and may succeed later.
        """
        try:
            return await self.uninstaller.uninstall(draft, target, way.cluster)
        except UninstallError:
            latest = snapshots.latest(draft.obj.status.history)
            if not way.last or latest is None:
                raise
            # The rights in the namespace went with the account, and the records with both.
            pruned = await unrecorded.delete(draft, target, latest)
            deleting.leave_failed(draft.rec, pruned)
            return ()

    def _target(self, draft: Draft, way: deleting.Way) -> Target:
        # ``uninstalling`` takes name and namespace of the release from the history.
        return Target(
            owner=draft.rec.key,
            cluster=self.serving(way.cluster),
            client=way.client,
            name="",
            namespace="",
            storage_namespace=draft.obj.status.storage_namespace,
            followed=way.cluster is self.clusters.local,
            keeps=homes.kept(draft.obj, self.identities.installed.namespace),
        )
