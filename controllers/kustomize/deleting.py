"""Delete the applied objects of a deleted Kustomization (``spec.deletionPolicy``)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from controllers.applying import deleting, denials, homes
from controllers.applying.clusters import Clusters
from controllers.applying.identity import Identities
from controllers.kustomize.memory import Memory
from controllers.kustomize.settings import Settings
from crds.kustomize import Kustomization
from toolkit.apply import prune
from toolkit.errors import TransientError
from toolkit.kube.controller import Reconciliation
from toolkit.objects import ObjectRef

Pass = Reconciliation[Kustomization]


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizationFinalizer:
    """Finalizes deleted Kustomizations."""

    settings: Settings
    clusters: Clusters
    identities: Identities
    memory: Memory

    async def finalize(self, rec: Pass) -> None:
        """Delete the objects as the policy says, and drop all caches of the Kustomization.

        Raises:
            TransientError: an object could not be deleted.
            WaitingError: the policy is ``WaitForTermination``, and some objects still exist.
        """
        refs = self.memory.inventory(rec.obj)
        spec = rec.obj.spec
        if refs and not spec.suspend and prune.deletes(spec.deletion_policy, prunes=spec.prune):
            with denials.explaining():
                await self._delete(rec, refs)
        self.clusters.forget(rec.key)
        self.memory.forget(rec.key)

    async def _delete(self, rec: Pass, refs: tuple[ObjectRef, ...]) -> None:
        async with AsyncExitStack() as until_gone:
            way = await deleting.way(rec, self.clusters, self.identities, until_gone, refs)
            if way is None:
                return
            options = self.settings.apply_options(rec.obj)
            # Objects that are about to be deleted must not be reported as drift.
            way.cluster.waits.cancel(rec.key)
            way.cluster.live.abandon(rec.key)
            pruned = await prune.prune(
                way.client,
                refs,
                owner=options.owner,
                find=way.cluster.live.find,
                concurrency=options.concurrency,
            )
            if pruned.lines:
                rec.event("info", "ReconciliationSucceeded", "\n".join(pruned.lines))
            homes.tell(rec, pruned.kept)
            if pruned.failed and not way.last:
                raise TransientError(pruned.message, reason=deleting.FAILED)
            if way.last:
                deleting.leave_failed(rec, pruned)
            elif rec.obj.spec.deletion_policy == "WaitForTermination":
                going = (*pruned.deleted, *pruned.terminating)
                await deleting.require_gone(rec, way.client, going)
