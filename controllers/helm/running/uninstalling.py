"""Uninstall the release in the history, when its HelmRelease is deleted or its target changes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from controllers.applying import homes, namespaces
from controllers.applying.clusters import Cluster
from controllers.helm.deciding import orders, outcomes, policies, snapshots
from controllers.helm.deciding.decisions import Action
from controllers.helm.deciding.outcomes import Happening
from controllers.helm.owners import Owners
from controllers.helm.running import unrecorded
from controllers.helm.running.draft import Draft
from controllers.helm.running.engine import Engine, Target, Traces
from controllers.helm.running.work import metadata_of, words
from crds.helm_status import Snapshot
from toolkit.apply import bounded, scope
from toolkit.apply.changes import Known
from toolkit.errors import Told, TransientError
from toolkit.helm.actions import Order, Outcome
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.native.calls import EngineError
from toolkit.objects import Json, ObjectKey, ObjectRef

_NOT_FOUND: Final = "ReleaseNotFound"
_ALREADY: Final = "is already deleted"
_DENIED: Final = "denied the request"
"""In the message of the API server about a refusal by an admission webhook or policy."""
_TERMINATING: Final = "because it is being terminated"
"""In the message of the API server about a new object in a namespace that is being deleted."""
_PARALLEL: Final = 8


class UninstallError(TransientError):
    """The release could not be uninstalled; its event was already sent."""

    default_reason = "UninstallFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstaller:
    """Uninstalls with the engine."""

    engine: Engine
    owners: Owners

    async def uninstall(
        self, draft: Draft, target: Target, cluster: Cluster
    ) -> tuple[ObjectRef, ...]:
        """Uninstall the latest release; return the objects that are still being deleted.

        A release that now belongs to another HelmRelease stays.

        Raises:
            UninstallError: the release could not be uninstalled.
        """
        latest = snapshots.latest(draft.obj.status.history)
        if latest is None:
            return ()
        if successor := self.owners.successor(draft.obj):
            draft.rec.log.info("release stays, it belongs to HelmRelease '%s' now", successor)
            return ()
        options = orders.options(draft.obj, Action.UNINSTALL) | seen(cluster, draft.rec.key)
        # Objects that are about to be deleted must not be reported as drift.
        cluster.waits.cancel(draft.rec.key)
        cluster.live.forget(draft.rec.key)
        traces = Traces()
        order = Order(
            action="uninstall",
            timeout=policies.timeout_seconds(draft.obj, Action.UNINSTALL.value),
            manager=orders.MANAGER,
            options=options,
        )
        released = replace(
            target,
            name=latest.name,
            namespace=latest.namespace,
            storage_namespace=draft.obj.status.storage_namespace,
        )
        try:
            outcome = await self._performed(released, order, traces)
        except EngineError as error:
            if error.code == _NOT_FOUND:
                draft.tell(Happening.UNINSTALL_NOT_FOUND, words(latest))
                return await self._unrecorded(draft, released, cluster, latest)
            if not _is_done(draft, error, latest):
                _failed(draft, error, latest)
            return ()
        finally:
            homes.report(draft.rec, sorted(traces.kept))
        for each in outcome.records:
            draft.keep(snapshots.updated(draft.obj.status.history, each, action="uninstall"))
        draft.tell(Happening.UNINSTALLED, words(latest), metadata=metadata_of(latest))
        return _going(draft, traces)

    async def _performed(self, target: Target, order: Order, traces: Traces) -> Outcome:
        """Uninstall; without hooks if they cannot run because their namespace is being deleted."""
        try:
            return await self.engine.perform(target, order, traces)
        except EngineError as error:
            if _TERMINATING not in str(error):
                raise
        hookless = replace(order, options={**order.options, "disableHooks": True})
        return await self.engine.perform(target, hookless, traces)

    async def _unrecorded(
        self, draft: Draft, target: Target, cluster: Cluster, latest: Snapshot
    ) -> tuple[ObjectRef, ...]:
        """Delete the objects of a release whose records went with their namespace.

        A user who has deleted the records alone, or uninstalled the release, keeps what is left.
        """
        if not await namespaces.ending(cluster.client, target.storage_namespace):
            return ()
        pruned = await unrecorded.delete(draft, target, latest)
        if pruned.failed:
            raise UninstallError(pruned.message)
        return (*pruned.deleted, *pruned.terminating)


async def require_allowed(client: Client, objects: Sequence[ObjectRef], *, why: str) -> None:
    """Require that admission lets the current chart delete the objects of the release.

    Admission judges a dry-run like the deletion. If it refused some objects only during the
    uninstallation, the others would be gone.

    Raises:
        TransientError: it does not. The release stays, and is not uninstalled because of ``why``.
        ApiError: the API server cannot be asked.
    """

    async def one(ref: ObjectRef) -> None:
        with contextlib.suppress(NotFoundError):
            if shown := await scope.served(client, ref):
                await client.delete(shown.gvk, ref.name, ref.namespace, dry_run=True)

    results = await bounded.each(objects, one, limit=_PARALLEL)
    bounded.raise_general(results)
    for ref, result in zip(objects, results, strict=True):
        # RBAC may also refuse objects that the chart keeps, so it decides when they are deleted.
        if isinstance(result, ForbiddenError) and _DENIED in str(result):
            raise TransientError(
                f"the release stays, although its {why} has changed: {ref} may not be deleted for"
                f" the chart that the source holds now: {result}",
                reason=UninstallError.default_reason,
            ) from result


def seen(cluster: Cluster, owner: ObjectKey) -> Json:
    """Return the option with the objects that the watches prove to belong to the release.

    Before the engine deletes an object, it reads the object to check its owner. For these objects
    it can skip the read: the watches show that they have all applied fields and the owner labels.
    They are deleted only in the version that was seen (``engine/internal/helm/owned.go``).
    """
    known, proven = cluster.live.known(owner), cluster.live.untouched(owner)
    return {"seen": [_told(known[identity]) for identity in sorted(proven)]}


def _told(known: Known) -> Json:
    ref = known.ref
    return {
        "group": ref.gvk.group,
        "kind": ref.gvk.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": known.uid,
        "resourceVersion": known.resource_version,
    }


def _going(draft: Draft, traces: Traces) -> tuple[ObjectRef, ...]:
    said = draft.obj.spec.uninstall
    return () if said is not None and said.disable_wait else tuple(traces.going.values())


def _is_done(draft: Draft, error: EngineError, latest: Snapshot) -> bool:
    """Tell whether the release was already uninstalled, and report it."""
    keeps = draft.obj.spec.uninstall is not None and draft.obj.spec.uninstall.keep_history
    if keeps and _ALREADY in str(error):
        draft.tell(Happening.UNINSTALLED_BEFORE, words(latest))
        return True
    return False


def _failed(draft: Draft, error: EngineError, latest: Snapshot) -> None:
    outcome: Outcome = error.outcome or Outcome()
    draft.note({"failures": draft.obj.status.failures + 1})
    for each in outcome.records:
        draft.keep(snapshots.updated(draft.obj.status.history, each, action=""))
    draft.tell(
        Happening.UNINSTALL_FAILED,
        {**words(latest), "error": str(error)},
        metadata=metadata_of(latest),
        log=outcome.log,
    )
    told = draft.condition(outcomes.RELEASED)
    raise UninstallError(told.message if told else str(error), told=Told(event="")) from error
