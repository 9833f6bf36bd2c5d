"""HelmRelease: one reconciliation, from the artifact of the chart to a healthy release.

``reconcile`` goes through the HelmChart, dependencies, source, values and chart in this order, and
then the release itself (``releasing``). Waiting for health does not occupy a worker. The process
caches the inputs of the last successful reconciliation (``memory``), so a reconciliation without a
change sends no request and runs no action.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers import grants, originrevision
from controllers.applying import denials, dependencies, homes
from controllers.applying.accounts import Accounts
from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.dependencies import Gate
from controllers.applying.identity import Identities
from controllers.helm import inputs
from controllers.helm.charts import Charts
from controllers.helm.deciding import chartsources, charttemplate, progress, requests, targets
from controllers.helm.deciding.outcomes import CLEARED
from controllers.helm.deciding.states import Desired
from controllers.helm.inputs import Inputs
from controllers.helm.owners import Owners
from controllers.helm.running import inventories, memory, opening, uninstalling
from controllers.helm.running.draft import Draft, Pass
from controllers.helm.running.engine import Target
from controllers.helm.running.memory import Memory
from controllers.helm.running.opening import Decrypting
from controllers.helm.running.records import Place, Records
from controllers.helm.running.releasing import Releaser
from controllers.helm.running.uninstalling import Uninstaller
from controllers.helm.running.work import Work
from controllers.helm.settings import Settings
from controllers.helm.sources import ChartReader, ChartSource
from controllers.helm.templates import Templates
from crds.helm import HelmRelease
from toolkit.apply import health, prune
from toolkit.errors import Told, WaitingError
from toolkit.kube.controller import Outcome
from toolkit.kube.secrets import Secrets

_NOW: Final = 0.0
_MOMENT_SECONDS: Final = 1.0
_LOOK_AGAIN_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmReleaseReconciler:
    """The stages of a reconciliation, built by ``stages``.

    ``known`` waits until grants and SourcePolicies have been listed once. ``stored`` tells whether
    the watch of Helm's records has synced. ``serving`` returns the key under which workers cache
    the discovery of a cluster.
    """

    settings: Settings
    templates: Templates
    sources: ChartReader
    gate: Gate
    secrets: Secrets
    charts: Charts
    clusters: Clusters
    identities: Identities
    memory: Memory
    records: Records
    accounts: Accounts
    admission: Decrypting
    owners: Owners
    releaser: Releaser
    uninstaller: Uninstaller
    known: Callable[[], Awaitable[None]]
    stored: Callable[[], bool]
    serving: Callable[[Cluster], str]

    async def reconcile(self, rec: Pass) -> Outcome:
        """Reconcile the release, or raise the error that says why this is not possible."""
        with denials.explaining():
            return await self._reconcile(rec)

    async def _reconcile(self, rec: Pass) -> Outcome:
        """Gather all inputs of the release, and release the chart if one has changed."""
        obj, draft = rec.obj, Draft(rec)
        rec.triggers = self.memory.asked(rec.key, rec.triggers)
        await self.known()
        grants.tell(rec, self.gate.policy)
        self.accounts.require(obj)
        if self.owners.knows(obj):
            self.owners.require(obj)
        opening.require_here(obj)
        rules = health.rules_of(msgspec.to_builtins(obj.spec.health_check_exprs))
        await dependencies.require_expressions(self.gate.evaluates, obj, rules)
        changed = await self.templates.reconcile(draft)
        await self.gate.known(obj)
        await self.gate.require_ready(obj, current=lambda _: True)
        # The status names the HelmChart where it has another name than in Flux. Others look there.
        changed = changed and not charttemplate.renamed(draft.obj)
        source = self._source(draft.obj, changed=changed)
        given = await inputs.gather(obj, self.secrets)
        async with self.clusters.of(obj) as cluster:
            cluster.live.set_rules(rec.key, rules)
            kept = self.memory.of(rec.key)
            fingerprint = memory.fingerprint(
                obj, digest=source.artifact.digest, versions=given.versions, cluster=cluster.number
            )
            ready = draft.ready
            if ready and ready.status == "True" and self._stands(rec, cluster, fingerprint):
                return Outcome(
                    message=ready.message,
                    reason=ready.reason,
                    requeue_after=obj.spec.interval_seconds,
                )
            kept.fingerprint = ""
            work = await self._work(draft, cluster, source, given)
            await self._require_owned(work)
            await self._require_same_target(work)
            outcome = await self.releaser.release(work)
            if outcome.ready == "True":
                kept.fingerprint = fingerprint
                self.memory.answered(rec.key)
            return outcome

    def _source(self, obj: HelmRelease, *, changed: bool) -> ChartSource:
        """Return the source of the chart.

        ``changed`` tells that this reconciliation has just written the HelmChart. If it is not
        ready, the error asks for a retry in a second and leaves the status unwritten.

        Raises:
            WaitingError: the source is not ready.
            PenstockError: the source cannot be used.
        """
        try:
            return self.sources.resolve(obj)
        except WaitingError as error:
            if not changed:
                raise
            told = Told(event="", unwritten=True)
            raise WaitingError(
                str(error), reason=error.reason, retry_after=_MOMENT_SECONDS, told=told
            ) from error

    def _stands(self, rec: Pass, cluster: Cluster, fingerprint: str) -> bool:
        """Tell whether the release is unchanged since the last successful reconciliation.

        If a watch does not cover all records and objects, each interval reads them again.
        """
        kept, due = self.memory.of(rec.key), set(rec.triggers)
        unseen = not self._followed(cluster) or cluster.live.unwatched(rec.key) or kept.unproven
        if unseen and "interval" in due:
            due.add("storage")
        return memory.stands(kept, fingerprint, due)

    def _followed(self, cluster: Cluster) -> bool:
        """Tell whether a watch shows the records of the release."""
        return cluster is self.clusters.local and self.stored()

    async def _work(
        self, draft: Draft, cluster: Cluster, source: ChartSource, given: Inputs
    ) -> Work:
        """Read chart and values, and collect the inputs of the release stages."""
        rec, obj = draft.rec, draft.obj
        values = await inputs.compose(obj, given)
        for missing in values.missing:
            rec.log.info(missing)
        about = await self.charts.about(source, flow=obj.metadata.namespace)
        version = chartsources.released(
            about.version,
            source.ref.gvk.kind,
            source.artifact.revision,
            tracks=self.settings.tracks_digests,
        )
        rec.revision = version.version
        made_of = originrevision.about(source.artifact)
        rec.about = self.identities.about(obj, source.origin) | made_of
        desired = Desired(
            chart_name=about.name,
            chart_version=version.version,
            config_digest=values.digest,
            app_version=about.app_version,
        )
        work = Work(
            draft=draft,
            kept=self.memory.of(rec.key),
            cluster=cluster,
            target=Target(
                owner=rec.key,
                cluster=self.serving(cluster),
                client=self.identities.impersonated(cluster.client, obj, source.origin),
                name=targets.release_name(obj),
                namespace=targets.release_namespace(obj),
                storage_namespace=targets.storage_namespace(obj),
                followed=self._followed(cluster),
                keeps=homes.kept(obj, self.identities.installed.namespace),
            ),
            source=source,
            charts=self.charts,
            values=values,
            desired=desired,
            version=version,
        )
        self._recall(work)
        return work

    def _recall(self, work: Work) -> None:
        """Drop the cached record if Helm's storage may have changed."""
        target, kept = work.target, work.kept
        place = Place(target.storage_namespace, target.name)
        if not target.followed:
            kept.read = kept.read and not {"storage", "requested"} & work.draft.rec.triggers
            return
        self.records.follow(target.owner, place)
        kept.read = kept.read and self.records.current(target.owner)
        fresh = not (kept.read or work.obj.status.history) and self.owners.knows(work.obj)
        if fresh and self.records.empty(place):
            # The watch shows no record of this release, so there is nothing to read.
            kept.read, kept.seen = True, None

    async def _require_owned(self, work: Work) -> None:
        """Require that the object owns a release whose records are in another namespace.

        Raises:
            ReleaseConflictError: the release belongs to another HelmRelease.
            PenstockError: the records cannot be read. That is told first, because it does not
                depend on whether there is such a release.
        """
        if self.owners.knows(work.obj):
            return
        if not work.kept.read:
            await self.releaser.actor.read(work)
        self.owners.require(work.obj)

    async def _require_same_target(self, work: Work) -> None:
        """Uninstall the release if its target has changed; otherwise record the attempt in status.

        Raises:
            WaitingError: the release was uninstalled, or its objects are still being deleted. The
                next reconciliation installs it at the new target.
        """
        draft, desired = work.draft, work.desired
        if why := targets.changed(work.obj, desired.chart_name):
            draft.rec.log.info(
                "release target configuration changed (%s): running uninstall for current release",
                why,
            )
            if why == targets.CHART and work.cluster is self.clusters.local:
                # The chart belongs to the source, which users without rights here may change.
                gone = inventories.listed(work.obj.status)
                await uninstalling.require_allowed(work.target.client, gone, why=why)
            going = await self.uninstaller.uninstall(work.draft, work.target, work.cluster)
            draft.note({"history": None, "storageNamespace": None, **dict.fromkeys(CLEARED)})
            self.memory.forget(draft.rec.key)
            self.memory.leave(draft.rec.key, going)
            raise WaitingError(
                progress.PREREQUISITES, reason="Progressing", retry_after=_NOW, told=Told(event="")
            )
        if going := self.memory.going(draft.rec.key):
            if await prune.remaining(work.target.client, going):
                raise WaitingError(
                    progress.PREREQUISITES,
                    reason="Progressing",
                    retry_after=_LOOK_AGAIN_SECONDS,
                    told=Told(event=""),
                )
            self.memory.leave(draft.rec.key, ())
        work.forced = requests.force(work.obj).acts
        forgets = requests.forgets_failures(work.obj, desired)
        fields = dict.fromkeys(CLEARED) if forgets else {}
        draft.note(
            {
                **fields,
                "storageNamespace": work.target.storage_namespace,
                "lastHandledForceAt": requests.force(work.obj).handled or None,
                "lastHandledResetAt": requests.reset(work.obj).handled or None,
                "lastAttemptedGeneration": work.obj.metadata.generation,
                "lastAttemptedRevision": desired.chart_version,
                "lastAttemptedRevisionDigest": work.version.oci_digest or None,
                "lastAttemptedConfigDigest": desired.config_digest,
                "lastAttemptedValuesChecksum": None,
                "lastReleaseRevision": None,
            }
        )
