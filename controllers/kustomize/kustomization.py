"""Kustomization: one reconciliation, from the revision of the sources to healthy objects.

``reconcile`` goes through these steps in order: sources, dependencies, inputs, render, apply,
prune, health. Waiting for health does not occupy a worker: the reconciliation ends, and the health
of the last object starts the one that finishes (``settling``). The process caches the last apply
(``memory``), so a reconciliation without a change costs nothing. Objects that the watches show as
unchanged (``toolkit.apply.live``) are not sent again.

Before the first write, the status lists every object of the old and the new inventory. So if the
process ends in between, the next one still knows all objects that may exist.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers import grants
from controllers.applying import denials, dependencies, homes, reporting, waiting
from controllers.applying.accounts import Accounts
from controllers.applying.admission import Admission
from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.identity import Identities
from controllers.kustomize import history, inputs, memory, settling
from controllers.kustomize.decryption import Decryption
from controllers.kustomize.memory import Applied, Memory
from controllers.kustomize.rendering import Rendered, Renderer
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import SourceReader, Sources
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply import health, prune, ssa, wait
from toolkit.apply.changes import ApplyError, ChangeSet
from toolkit.apply.prune import Pruned
from toolkit.artifact import fetch
from toolkit.errors import PenstockError, TransientError
from toolkit.kube import conditions
from toolkit.kube.client import Client
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.kube.secrets import Secrets
from toolkit.objects import ObjectRef, gvk_of, ref_of

Pass = Reconciliation[Kustomization]

_SEEN_SECONDS: Final = 2.0
"""How long the first reconciliation after a restart waits for the watches.

Without the watches, each object costs a request.
"""
_BUILD_SECONDS: Final = 120.0
"""Limit of a build, even if ``spec.timeout`` is longer: a build occupies one of few workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizationReconciler:
    """The stages of a reconciliation, built by ``stages``.

    ``known`` waits until grants and SourcePolicies have been listed once.
    """

    settings: Settings
    sources: SourceReader
    gate: dependencies.Gate
    secrets: Secrets
    decryption: Decryption
    admission: Admission
    renderer: Renderer
    clusters: Clusters
    identities: Identities
    memory: Memory
    accounts: Accounts
    refusals: grants.Refusals
    known: Callable[[], Awaitable[None]]

    async def reconcile(self, rec: Pass) -> Outcome:
        """Apply the revision of the sources, or raise the error that says why this fails."""
        with denials.explaining():
            return await self._reconcile(rec)

    async def _reconcile(self, rec: Pass) -> Outcome:
        """Find the sources, and apply what they hold."""
        obj = rec.obj
        rec.triggers = self.memory.asked(rec.key, rec.triggers)
        await self.known()
        grants.tell(rec, self.gate.policy)
        self.accounts.require(obj)
        rules = health.rules_of(msgspec.to_builtins(obj.spec.health_check_exprs))
        await dependencies.require_expressions(self.gate.evaluates, obj, rules)
        sources = self.sources.resolve(obj)
        rec.revision = sources.revision
        rec.about = self.identities.about(obj, sources.origin)
        if sources.origin_revision:
            rec.about["originRevision"] = sources.origin_revision
        current = functools.partial(self.sources.current, obj, sources)
        await self.gate.known(obj)
        await self.gate.require_ready(obj, current=current)
        try:
            return await self._proceed(rec, sources, rules)
        except PenstockError as error:
            if error.reason != fetch.REASON:  # As in Flux: the sources were available.
                rec.status({"lastAttemptedRevision": sources.revision})
            raise

    async def _proceed(
        self, rec: Pass, sources: Sources, rules: tuple[health.Rule, ...]
    ) -> Outcome:
        """Apply the content of the sources if it has changed, and check the health of objects."""
        obj, began = rec.obj, time.monotonic()
        admission = self.admission.decrypts(obj)
        given = await inputs.gather(obj, self.secrets, self.decryption, admission=admission)
        async with self.clusters.of(obj) as cluster:
            cluster.live.set_rules(rec.key, rules)
            applied = await self._applied(rec, sources, given, cluster, began)
            if applied.changes and not applied.settled:
                rec.about["changes"] = applied.changes
            reporting.report_claims(rec, cluster.live.claims(rec.key))
            return await settling.settle(
                rec, sources, cluster, applied, fail_fast=self.settings.fail_fast
            )

    async def _applied(
        self, rec: Pass, sources: Sources, given: inputs.Inputs, cluster: Cluster, began: float
    ) -> Applied:
        """Return the last apply if a new one would change nothing; otherwise apply again."""
        settings = memory.settings(rec.obj, given, cluster=cluster.number)
        fingerprint = memory.fingerprint(settings, sources)
        watched = not cluster.live.unwatched(rec.key)
        last = self.memory.get(rec.key)
        if last is None:
            pass
        elif last.stands(fingerprint, rec.triggers, watched=watched):
            last.started = began if last.settled else last.started
            return last
        elif last.depends(settings, rec.triggers, watched=watched):
            seconds = min(rec.obj.spec.timeout_seconds, _BUILD_SECONDS)
            if await self.renderer.unchanged(
                sources, last.footprint, flow=rec.key.namespace, seconds=seconds
            ):
                rec.status({"lastAttemptedRevision": sources.revision})
                last.renew(fingerprint, started=began)
                return last
        applied = await self._apply(rec, sources, given, cluster, settings)
        self.memory.put(rec.key, applied)
        return applied

    async def _apply(
        self, rec: Pass, sources: Sources, given: inputs.Inputs, cluster: Cluster, settings: str
    ) -> Applied:
        """Render, apply and prune."""
        obj, started = rec.obj, time.monotonic()
        client = self.identities.impersonated(cluster.client, obj, sources.origin)
        seconds = min(obj.spec.timeout_seconds, _BUILD_SECONDS)
        built = await self.renderer.render(obj, sources, given, seconds=seconds)
        rec.status({"lastAttemptedRevision": sources.revision})
        for key in await given.keys.skipped() if given.keys else ():
            rec.event("error", "DecryptionKeySkipped", f"skipped the decryption key {key}")
        digest = history.build_digest(built.objects)
        self.memory.invalidate(rec.key)
        cluster.waits.cancel(rec.key)
        leaving = {ref.gvk for ref in self.memory.leaving(rec.key)}
        cluster.live.ensure(rec.key, {gvk_of(item) for item in built.objects} | leaving)
        before = self.memory.inventory(obj)
        if before and self.memory.get(rec.key) is None:
            # After a restart: with synced watches, unchanged objects need no request.
            await cluster.live.wait_synced(rec.key, timeout=_SEEN_SECONDS)
        was_healthy = conditions.is_true(rec.conditions, settling.HEALTHY)
        try:
            with denials.explaining(), settling.announced(rec):
                changes = await self._write(rec, sources, client, cluster, built, before)
                pruned = await self._prune(rec, client, cluster, before, changes)
                awaited = settling.awaited(obj, changes)
                await waiting.require_access(client, awaited, settling.sent(changes))
        except TransientError as error:
            history.record(rec, sources, digest=digest, reason=error.reason, started=started)
            raise
        return Applied(
            fingerprint=memory.fingerprint(settings, sources),
            settings=settings,
            footprint=built.footprint,
            digest=digest,
            started=started,
            inventory=(*changes.refs, *pruned.survivors),
            leaving=tuple(ref for ref, _ in pruned.held),
            awaited=awaited,
            may_vanish=wait.vanishing(built.objects),
            changed=changes.changed,
            changes=reporting.in_short([*changes.lines, *pruned.lines]),
            was_healthy=was_healthy,
        )

    async def _write(  # noqa: PLR0913, PLR0917 - client, cluster, objects, old inventory
        self,
        rec: Pass,
        sources: Sources,
        client: Client,
        cluster: Cluster,
        built: Rendered,
        before: Sequence[ObjectRef],
    ) -> ChangeSet:
        """Apply the objects, tell the watches what to expect, and report changes in an event."""

        async def announce(writing: Sequence[ObjectRef]) -> None:
            """Add objects to the inventory before they are created."""
            rec.status({"inventory": {"entries": inventory.encode([*before, *writing])}})
            await settling.progress(rec, sources)

        options = self.settings.apply_options(rec.obj, recheck="requested" in rec.triggers)
        known = cluster.live.known(rec.key)
        if options.recheck:
            # Objects that another applier has claimed are applied again only on request.
            for ref in cluster.live.claims(rec.key):
                known.pop(ref.identity, None)
        cluster.live.hold(rec.key, {ref_of(each).identity for each in built.objects})
        children = built.objects if rec.obj.spec.kube_config is None else ()
        self.refusals.awaits(rec.key, children)
        try:
            changes = await ssa.apply(
                client,
                built.objects,
                options=options,
                known=known,
                clock=cluster.clock,
                find=cluster.live.find,
                pace=cluster.pace,
                announce=announce,
            )
        except ApplyError as error:
            self.refusals.refused(rec.key, children, (each.ref for each in error.failures))
            reporting.list_inventory(rec, [*before, *error.changes.refs])
            cluster.live.expect(rec.key, error.changes.known, partial=True)
            reporting.report_changes(rec, cluster, error.changes.lines)
            message = await built.redaction.masked(str(error))
            raise ApplyError((), changes=error.changes.entries, message=message) from None
        except BaseException:
            self.refusals.awaits(rec.key, ())
            cluster.live.release(rec.key)
            raise
        self.refusals.awaits(rec.key, ())
        # Kinds that are defined by the applied objects can be watched only now.
        leaving = {ref.gvk for ref in self.memory.leaving(rec.key)}
        cluster.live.ensure(rec.key, {ref.gvk for ref in changes.refs} | leaving)
        cluster.live.expect(rec.key, changes.known)
        reporting.report_changes(rec, cluster, changes.lines if changes.changed else ())
        return changes

    async def _prune(
        self,
        rec: Pass,
        client: Client,
        cluster: Cluster,
        before: Sequence[ObjectRef],
        changes: ChangeSet,
    ) -> Pruned:
        """Delete objects that are no longer in the build, and follow those that finalizers keep."""
        stale = inventory.difference(before, (*changes.refs, *changes.left))
        pruned, options = Pruned(), self.settings.apply_options(rec.obj)
        if stale and rec.obj.spec.prune:
            pruned = await prune.prune(
                client,
                stale,
                owner=options.owner,
                find=cluster.live.find,
                concurrency=options.concurrency,
            )
        reporting.report_changes(rec, cluster, pruned.lines)
        reporting.report_held(rec, pruned)
        homes.report(
            rec,
            pruned.kept,
            [ref for ref in changes.skipped if options.owner.retains(ref)],
        )
        kinds = {ref.gvk for ref in (*changes.refs, *(ref for ref, _ in pruned.held))}
        cluster.live.ensure(rec.key, kinds)
        cluster.live.leave(rec.key, (ref for ref, _ in pruned.held))
        kept = (*changes.refs, *pruned.survivors)
        rec.status({"inventory": {"entries": inventory.encode(kept)}})
        if pruned.failed:
            raise TransientError(pruned.message, reason="PruneFailed")
        return pruned
