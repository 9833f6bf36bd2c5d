"""Plans: what an install or upgrade would change now.

A plan goes through the stages of a reconciliation up to the dry-run. Helm's own dry-run renders the
chart in a worker, and the template function ``lookup`` reads with the service account of the
release. Then each object is sent to the API server as a dry-run, with the same account and the
field manager of releases. So a plan shows only what the account may read, and fails if a
reconciliation would fail. It writes no record, object, status or event, runs no hook, and does not
change the caches and watches of reconciliations.

Dependencies and suspension do not prevent a plan, because users need plans in these states too.
Values of Secrets are masked. So is every value of another object that contains a value of a Secret
from ``valuesFrom`` or ``lookup``.
"""

import asyncio
import base64
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from controllers.applying import homes, redaction
from controllers.helm import inputs
from controllers.helm.charts import About
from controllers.helm.deciding import chartsources, manifests, orders, targets
from controllers.helm.deciding.decisions import Action
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.helmrelease import HelmReleaseReconciler
from controllers.helm.inputs import Values
from controllers.helm.running import opening
from controllers.helm.running.engine import Run
from controllers.helm.sources import ChartSource
from controllers.planning import plans
from controllers.planning.plans import Hook, Mask, Plan
from controllers.planning.revisions import Retained
from crds.helm import GROUP, HelmRelease
from crds.helm_actions import Upgrade
from toolkit.apply import diff as applying
from toolkit.apply import ownership
from toolkit.apply.changes import ApplyError
from toolkit.apply.diff import Finding
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import Owner
from toolkit.apply.retention import Retention
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.helm import actions
from toolkit.helm.actions import Order, Outcome
from toolkit.helm.reading import Reading
from toolkit.kube.client import Client
from toolkit.kube.reconciliation import require_spec
from toolkit.native.calls import EngineError
from toolkit.objects import Json, ref_of
from toolkit.release import record
from toolkit.release.record import Record

PREFIX: Final = "helmrelease:"
"""Prefix of the names of HelmReleases' inventories (``apiserver.inventories.appliers``)."""

_SECONDS: Final = 30.0
"""Deadline of an action of a plan."""
_PARALLEL: Final = 8
_IF_MISSING: Final = {f"{GROUP}/ssa": "IfNotPresent"}


class PlanError(StalledError):
    """The next reconciliation would do something other than install or upgrade."""

    default_reason = "NoPlan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Computes plans with the stages of reconciliations; ``run`` runs an action of Helm."""

    stages: HelmReleaseReconciler
    run: Run
    revisions: Retained

    async def plan(self, obj: HelmRelease, revision: str = "") -> Plan:
        """Return what a release of ``revision`` would change; the default is the current revision.

        Messages of errors show no secret value.

        Raises:
            PlanError: the next reconciliation would uninstall the release first.
            PenstockError: the error with which a reconciliation would fail.
        """
        require_spec(obj)
        stages = self.stages
        await stages.known()
        stages.accounts.require(obj)
        if stages.owners.knows(obj):
            stages.owners.require(obj)
        opening.require_here(obj)
        opening.require(obj, stages.admission)
        source = await self._source(obj, revision)
        values = await inputs.compose(obj, await inputs.gather(obj, stages.secrets))
        about = await stages.charts.about(source, flow=obj.metadata.namespace)
        if why := targets.changed(obj, about.name):
            raise PlanError(
                f"the next reconciliation uninstalls the release, because its {why} has changed,"
                " and installs it again: a plan cannot show that"
            )
        async with stages.identities.cluster(obj) as cluster:
            asked = _Asked(
                obj=obj,
                client=stages.identities.impersonated(cluster, obj, source.origin),
                cluster=self._name(cluster),
                run=self.run,
                values=values,
                keeps=homes.kept(obj, stages.identities.installed.namespace),
            )
            return await self._planned(asked, source, about)

    async def _source(self, obj: HelmRelease, revision: str) -> ChartSource:
        source = self.stages.sources.resolve(obj)
        if not revision:
            return source
        artifact = await self.revisions.find(source, revision)
        source = replace(source, artifact=artifact)
        self.stages.sources.require_allowed(source)
        return source

    def _name(self, cluster: Client) -> str:
        """Return the key under which workers cache the discovery of a cluster.

        Remote clusters have their keys only in reconciliations. A plan for one gets a new key, so
        it shares no cache.
        """
        stages = self.stages
        local = cluster is stages.identities.own
        return stages.serving(stages.clusters.local) if local else f"plan/{uuid.uuid4()}"

    async def _planned(self, asked: "_Asked", source: ChartSource, about: About) -> Plan:
        obj = asked.obj
        version = chartsources.released(
            about.version,
            source.ref.gvk.kind,
            source.artifact.revision,
            tracks=self.stages.settings.tracks_digests,
        )
        base = await asked.base()
        self.stages.owners.require(obj)  # The account could read the records.
        named = {"chartVersion": version.version} if version.oci_digest else {}
        options = orders.options(obj, base.action) | named
        async with AsyncExitStack() as stack:
            chart = await stack.enter_async_context(self.stages.charts.opened(source))
            rendered, mask = await asked.rendered(chart, options, base)
        made = rendered.records[0]
        try:
            objects = tuple(_wanted(obj, made.manifest, rendered.objects, options))
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            # The engine does not check metadata of objects whose kinds are not served.
            raise TransientError(
                "the chart renders an object with invalid metadata", reason="BuildFailed"
            ) from exc
        found = await _found(asked, objects, base.objects, mask)
        hooks = () if options.get("disableHooks") else _hooks(made, base.action)
        return await asyncio.to_thread(plans.of, version.version, found, objects, mask, hooks=hooks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The current release; an upgrade deletes those ``objects`` that the new one does not have."""

    action: Action
    newest: Record | None = None
    objects: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The inputs of one plan: the HelmRelease, its client and values, and the kept namespaces."""

    obj: HelmRelease
    client: Client
    cluster: str
    run: Run
    values: Values
    keeps: Retention

    async def base(self) -> _Base:
        """Return the release that Helm would start from (``pkg/action/upgrade.go``).

        Raises:
            WaitingError: an action is in progress, or was interrupted.
        """
        outcome = await self._perform("history")
        newest = outcome.records[0] if outcome.records else None
        if newest is None or newest.info.status == record.UNINSTALLED:
            return _Base(action=Action.INSTALL)
        if newest.info.status in record.PENDING:
            raise WaitingError(
                f"the release is '{newest.info.status}': request the plan again when the action"
                " has ended, or when the next reconciliation has unlocked the release"
            )
        deployed = (each for each in outcome.records if each.info.status == record.DEPLOYED)
        current = next(deployed, newest)
        if current is not newest:
            outcome = await self._perform("history", options={"version": current.version})
        objects = tuple(
            each for each in outcome.objects if manifests.renders(current.manifest, each)
        )
        return _Base(action=Action.UPGRADE, newest=current, objects=objects)

    async def rendered(self, chart: Any, options: Json, base: _Base) -> tuple[Outcome, Mask]:
        """Return the release that the action would make, and the mask of its secret values."""
        reading = Reading(self.client)
        secrets = self.values.secrets
        if base.newest is not None and (self.obj.spec.upgrade or Upgrade()).preserve_values:
            secrets = (*secrets, *_kept(self.obj, base.newest))
        try:
            outcome = await self._perform(
                "render",
                reading=reading,
                chart=chart,
                values=self.values.values,
                options=options | {"upgrade": base.action is Action.UPGRADE},
                secrets=secrets,
            )
        except EngineError as error:
            text = await asyncio.to_thread(_mask(secrets, reading).text, str(error))
            raise TransientError(text, reason=error.reason) from None
        if not outcome.records:
            raise TransientError(
                "the engine returned nothing about the release", reason="EngineFailed"
            )
        return outcome, _mask(secrets, reading)

    async def _perform(
        self, action: actions.Action, *, reading: Reading | None = None, **given: Any
    ) -> Outcome:
        release = actions.Release(
            flow=self.obj.metadata.namespace,
            cluster=self.cluster,
            name=targets.release_name(self.obj),
            namespace=targets.release_namespace(self.obj),
            storage_namespace=targets.storage_namespace(self.obj),
            acting=reading or Reading(self.client),
            keeping=Reading(self.client),
        )
        return await self.run(
            release, Order(action=action, timeout=_SECONDS, manager=MANAGER, **given)
        )


def _mask(secrets: Sequence[str], reading: Reading) -> Mask:
    encoded = {base64.b64encode(each.encode()).decode() for each in secrets}
    return Mask(values=encoded | set(secrets) | reading.values, every=reading.unknown)


def _kept(obj: HelmRelease, newest: Record) -> set[str]:
    """Return values of the last release that are not in the spec, and may come from Secrets."""
    inline = () if obj.spec.values is msgspec.UNSET else (obj.spec.values,)
    return set(redaction.scalars([newest.values])) - set(redaction.scalars(inline))


def _wanted(obj: HelmRelease, manifest: str, objects: Sequence[Json], options: Json) -> list[Json]:
    """Return the objects to apply, in this order: namespace, definitions, rendered objects."""
    owner, common = _owner(obj), obj.spec.common_metadata
    labels, notes = (dict(common.labels), dict(common.annotations)) if common else ({}, {})
    if options.get("crds") == "Create":
        notes |= _IF_MISSING
    wanted = [_namespace(targets.release_namespace(obj))] if options.get("createNamespace") else []
    for each in manifests.placed(objects, targets.release_namespace(obj)):
        if manifests.renders(manifest, each):
            wanted.append(manifests.applied(each, obj))
        elif options.get("crds", "Skip") != "Skip":
            wanted.append(ownership.own(each, owner, labels=labels, annotations=notes))
    return wanted


def _namespace(name: str) -> Json:
    """Return the namespace that Helm creates if it does not exist (``pkg/action/install.go``)."""
    metadata = {"name": name, "labels": {"name": name}, "annotations": _IF_MISSING}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _hooks(made: Record, action: Action) -> tuple[Hook, ...]:
    events = {f"pre-{action.value}", f"post-{action.value}"}
    return tuple(
        Hook(kind=hook.kind, name=hook.name, events=hook.events)
        for hook in made.hooks
        if events.intersection(hook.events)
    )


async def _found(
    asked: _Asked, objects: Sequence[Json], base: Sequence[Json], mask: Mask
) -> Sequence[Finding]:
    owner = replace(_owner(asked.obj), keeps=asked.keeps)
    try:
        return await applying.diff(
            asked.client,
            objects,
            options=ApplyOptions(owner=owner, manager=MANAGER, concurrency=_PARALLEL),
            inventory=tuple(map(ref_of, base)),
            secret=mask.holds,
            deletes=lambda live: not manifests.stays(live, asked.obj),
        )
    except ApplyError as error:
        told = await asyncio.to_thread(mask.text, str(error))
        raise TransientError(told, reason=error.reason) from None


def _owner(obj: HelmRelease) -> Owner:
    return Owner(namespace=obj.metadata.namespace, name=obj.metadata.name, group=GROUP)
