"""What a reconcile would change now: the same way as a pass, up to the dry-run, and no further.

The build is the reconciler's own, with its keys and variables; the server is asked as the identity
that would apply, on the cluster that would be applied to. So a plan shows nobody more than the
account of the Kustomization may read, and refuses what a pass would refuse. It writes nothing: no
status, no event, no finalizer, and the memory and the watches of the passes are left alone.

Dependencies and suspension do not prevent a plan: people ask then. Values of Secrets are masked,
and so is every value of another object that holds one, decrypted or substituted.
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
"""Of the deadline that a build may take."""
_PARALLEL: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Makes plans from the stages of the passes."""

    stages: KustomizationReconciler
    revisions: Retained

    async def plan(self, obj: Kustomization, revision: str = "") -> Plan:
        """Return what a reconcile of a revision would change; with none, of the current one.

        Raises a typed error, as a pass would, with a message that shows no secret value.
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
        raise TransientError(built.redaction.text(str(error)), reason=error.reason) from None


def _inventory(obj: Kustomization) -> Sequence[ObjectRef]:
    """Return what would be pruned if it left the build."""
    listed = obj.status.inventory
    if not obj.spec.prune or listed is None:
        return ()
    return inventory.decode(msgspec.to_builtins(listed.entries))


async def at(sources: Sources, revision: str, revisions: Retained) -> Sources:
    """Return the sources as they were at a revision, by its name or digest.

    Raises:
        UnknownRevisionError: nothing is stored of it, or it is one of several sources together.
        TransientError: what is stored cannot be found out.
    """
    mount = sources.primary
    if revision == sources.revision or names(revision, mount.artifact):
        return sources
    if len(sources.mounts) > 1:
        raise UnknownRevisionError(
            "of a build of several sources only the present revision can be planned: "
            f"'{sources.revision}'"
        )
    artifact = await revisions.find(mount, revision)
    return Sources(mounts=(replace(mount, artifact=artifact),))
