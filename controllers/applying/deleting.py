"""Deletion of an applier: the client that deletes its objects, and the limit of the wait.

The deletion of an applier always ends. If its service account does not exist, or its kubeConfig
stays unusable, the applied objects stay, and an event, the log and a metric say so (Flux does the
same for a missing account). Otherwise the deletion of a namespace would hang if the account is
deleted before the applier.

If the account went with its namespace, its name is tried once more: what it was allowed outside of
the namespace still holds, and the applier must not leave objects there without need.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from controllers.applying import namespaces
from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.identity import Identities
from toolkit import telemetry
from toolkit.apply import prune
from toolkit.apply.prune import Pruned
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.kube.client import Client
from toolkit.kube.errors import KubeConfigError, NotFoundError
from toolkit.kube.reconciliation import Reconciliation
from toolkit.objects import ObjectRef

Pass: TypeAlias = Reconciliation[Any]

FAILED: Final = "PruneFailed"
_LOOK_AGAIN_SECONDS: Final = 2.0
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The cluster with the applied objects, and the client that deletes them.

    ``last`` tells that the account is gone with its namespace: what it may not delete stays.
    """

    cluster: Cluster
    client: Client
    last: bool = False


async def way(
    rec: Pass,
    clusters: Clusters,
    identities: Identities,
    until_gone: AsyncExitStack,
    refs: Sequence[ObjectRef],
) -> Way | None:
    """Return the cluster and the client for the deletion of the applied objects ``refs``.

    None means that the account does not exist or the cluster cannot be used; the objects stay, and
    an event says so. For an invalid kubeConfig this happens after ``spec.timeout``, so that users
    can correct it before.

    Raises:
        TransientError: the kubeConfig cannot be used yet.
    """
    try:
        cluster = await until_gone.enter_async_context(clusters.of(rec.obj))
    except (KubeConfigError, StalledError) as error:
        if not _overdue(rec):
            raise TransientError(
                f"{error}; correct it within spec.timeout, or the applied objects stay",
                reason=error.reason,
            ) from error
        leave(rec, str(error), refs)
        return None
    except TransientError as error:
        if not isinstance(error.__cause__ or error, NotFoundError):
            raise
        leave(rec, str(error), refs)
        return None
    client, last = identities.impersonated(cluster.client, rec.obj, None), False
    if cluster is clusters.local:
        try:
            await identities.require_account(rec.obj)
        except NotFoundError as error:
            last = await namespaces.ending(identities.own, identities.account(rec.obj).namespace)
            if not last:
                leave(rec, str(error), refs)
                return None
    return Way(cluster=cluster, client=client, last=last)


def leave(rec: Pass, why: str, refs: Sequence[ObjectRef]) -> None:
    """Say that applied objects stay."""
    telemetry.OBJECTS_LEFT.labels(rec.ref.gvk.kind).inc(len(refs))
    rec.log.error("Applied objects stay", extra={"error": why, "objects": [*map(str, refs)]})
    named = f": {_named(refs)}" if refs else ""
    rec.event(
        "error",
        FAILED,
        f"the applied objects stay: {why}; delete them by hand if they are not needed{named}",
    )


def leave_failed(rec: Pass, pruned: Pruned) -> None:
    """Say that the objects stay which could not be deleted, if there are any."""
    if pruned.failed:
        leave(rec, pruned.message, [ref for ref, _ in pruned.failed])


async def require_gone(rec: Pass, api: Client, refs: Sequence[ObjectRef]) -> None:
    """Require that all objects are deleted.

    After ``spec.timeout``, counted from the deletion of the applier, this only sends an event.

    Raises:
        WaitingError: some objects still exist.
    """
    left = await prune.remaining(api, refs)
    if not left:
        return
    if _overdue(rec):
        rec.event("error", FAILED, f"timeout waiting for termination of {_named(left)}")
        return
    raise WaitingError(
        f"waiting for termination of {_named(left)}",
        reason="Progressing",
        retry_after=_LOOK_AGAIN_SECONDS,
    )


def _overdue(rec: Pass) -> bool:
    return _seconds_since(rec.obj.metadata.deletion_timestamp) > float(rec.obj.spec.timeout_seconds)


def _named(refs: Sequence[ObjectRef]) -> str:
    shown = ", ".join(str(ref) for ref in refs[:_SHOWN])
    more = len(refs) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _seconds_since(timestamp: str | None) -> float:
    if timestamp is None:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
