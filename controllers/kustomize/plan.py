"""Plans: what a reconciliation would change now.

A plan goes through the stages of a reconciliation up to the dry-run. It builds with the same keys
and variables, and sends the dry-run with the same identity to the same cluster. So a plan shows
only what the account of the Kustomization may read, and fails if a reconciliation would fail. It
writes no status, event or finalizer, and does not change the caches and watches of reconciliations.

Dependencies and suspension do not prevent a plan, because users need plans in these states too.
Values of Secrets are masked. So is every value of another object that contains a decrypted or
substituted secret value.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from controllers.kustomize import inputs
from controllers.kustomize.kustomization import KustomizationReconciler
from controllers.kustomize.rendering import Rendered
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import Sources
from controllers.planning import plans
from controllers.planning.plans import Mask, Plan
from controllers.planning.revisions import Retained, UnknownRevisionError, names
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply import diff as applying
from toolkit.apply.changes import ApplyError
from toolkit.apply.diff import Finding
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.reconciliation import require_spec
from toolkit.objects import ObjectRef

_SECONDS: Final = 30.0
"""Deadline of the build of a plan."""
_PARALLEL: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Computes plans with the stages of reconciliations."""

    stages: KustomizationReconciler
    revisions: Retained

    async def plan(self, obj: Kustomization, revision: str = "") -> Plan:
        """Return what a reconciliation of ``revision``, by default the current one, would change.

        Messages of errors show no secret value.

        Raises:
            PenstockError: the error with which a reconciliation would fail.
        """
        require_spec(obj)
        stages = self.stages
        await stages.known()
        stages.accounts.require(obj)
        sources = stages.sources.resolve(obj)
        if revision:
            sources = await at(sources, revision, self.revisions)
            stages.sources.require_allowed(sources)
        admission = stages.admission.decrypts(obj)
        given = await inputs.gather(obj, stages.secrets, stages.decryption, admission=admission)
        async with stages.identities.cluster(obj) as cluster:
            client = stages.identities.impersonated(cluster, obj, sources.origin)
            seconds = min(obj.spec.timeout_seconds, _SECONDS)
            built = await stages.renderer.render(obj, sources, given, seconds=seconds)
            mask = Mask(values=await asyncio.to_thread(built.redaction.secrets))
            found = await _found(client, obj, built, mask, stages.settings)
        return await asyncio.to_thread(plans.of, sources.revision, found, built.objects, mask)


async def _found(
    client: Client,
    obj: Kustomization,
    built: Rendered,
    mask: Mask,
    settings: Settings,
) -> Sequence[Finding]:
    options = settings.apply_options(obj)
    try:
        return await applying.diff(
            client,
            built.objects,
            options=replace(options, concurrency=max(options.concurrency, _PARALLEL)),
            inventory=_inventory(obj),
            secret=mask.holds,
        )
    except ApplyError as error:
        told = await built.redaction.masked(str(error))
        raise TransientError(told, reason=error.reason) from None


def _inventory(obj: Kustomization) -> Sequence[ObjectRef]:
    """Return the objects that would be pruned if they were no longer in the build."""
    listed = obj.status.inventory
    if not obj.spec.prune or listed is None:
        return ()
    return inventory.decode(msgspec.to_builtins(listed.entries))


async def at(sources: Sources, revision: str, revisions: Retained) -> Sources:
    """Return the sources at an earlier revision, given by its name or digest.

    Raises:
        UnknownRevisionError: the revision is not stored, or the build has several sources.
        TransientError: the artifact store cannot be asked.
    """
    mount = sources.primary
    if revision == sources.revision or names(revision, mount.artifact):
        return sources
    if len(sources.mounts) > 1:
        raise UnknownRevisionError(
            "a plan of a Kustomization with several sources is only possible for the current "
            f"revision, '{sources.revision}'"
        )
    artifact = await revisions.find(mount, revision)
    return Sources(mounts=(replace(mount, artifact=artifact),))
