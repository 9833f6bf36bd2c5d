"""What a deleted HelmRelease takes with it: its release, and its HelmChart.

A suspended one takes nothing. Where the account to uninstall with is gone, or the cluster cannot be
reached for good, the release stays (``controllers.applying.deleting``).
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

from controllers.applying import deleting
from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.identity import Identities
from controllers.helm.running.draft import Draft, Pass
from controllers.helm.running.engine import Target
from controllers.helm.running.memory import Memory
from controllers.helm.running.records import Records
from controllers.helm.running.uninstalling import Uninstaller
from controllers.helm.templates import Templates
from crds.helm_status import HelmReleaseStatus
from toolkit import inventory
from toolkit.errors import StalledError
from toolkit.objects import ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmReleaseFinalizer:
    """Ends the life of a HelmRelease."""

    clusters: Clusters
    identities: Identities
    memory: Memory
    records: Records
    templates: Templates
    uninstaller: Uninstaller
    serving: Callable[[Cluster], str]

    async def finalize(self, rec: Pass) -> None:
        """Uninstall the release, delete the HelmChart, then forget everything.

        Raises:
            UninstallError: the release could not be uninstalled.
            WaitingError: some of its objects are still there.
        """
        draft = Draft(rec)
        if not rec.obj.spec.suspend:
            await self._uninstall(draft)
            await self.templates.reconcile(draft)
        self.clusters.forget(rec.key)
        self.memory.forget(rec.key)
        self.records.forget(rec.key)
        self.templates.forget(rec.key)

    async def _uninstall(self, draft: Draft) -> None:
        status = draft.obj.status
        going = _inventory(status)
        if not (status.storage_namespace or going):
            return
        async with AsyncExitStack() as until_gone:
            way = await deleting.way(draft.rec, self.clusters, self.identities, until_gone)
            if way is None:
                return
            if status.storage_namespace:
                target = self._target(draft, way)
                going = await self.uninstaller.uninstall(draft, target, way.cluster)
                entries = {"entries": inventory.encode(going)}
                draft.note({"history": None, "storageNamespace": None, "inventory": entries})
            await deleting.require_gone(draft.rec, way.client, going)

    def _target(self, draft: Draft, way: deleting.Way) -> Target:
        # The history says which release it is (``uninstalling``).
        return Target(
            owner=draft.rec.key,
            cluster=self.serving(way.cluster),
            client=way.client,
            name="",
            namespace="",
            storage_namespace=draft.obj.status.storage_namespace,
            followed=way.cluster is self.clusters.local,
        )


def _inventory(status: HelmReleaseStatus) -> tuple[ObjectRef, ...]:
    """Return the objects that the status lists: those that still go, of an uninstalled release.

    Entries that cannot be read name nothing to wait for: deletion ends whatever happens.
    """
    listed = status.inventory
    try:
        return inventory.decode(msgspec.to_builtins(listed.entries) if listed else ())
    except StalledError:
        return ()
