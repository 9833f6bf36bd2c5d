"""Deletion of an applier: the client that deletes its objects, and the limit of the wait.

The deletion of an applier always ends. If its service account does not exist, or its kubeConfig
stays unusable, the applied objects stay and an event says so (Flux does the same for a missing
account). Otherwise the deletion of a namespace would hang if the account is deleted before the
applier.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from controllers.applying.clusters import Cluster, Clusters
from controllers.applying.identity import Identities
from toolkit.apply import prune
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
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
    """The cluster with the applied objects, and the client that deletes them."""

    cluster: Cluster
    client: Client


async def way(
    rec: Pass, clusters: Clusters, identities: Identities, until_gone: AsyncExitStack
) -> Way | None:
    """Return the cluster and the client for the deletion of the applied objects.

    None means that the account does not exist or the cluster cannot be used; the objects stay, and
    an event says so. For an invalid kubeConfig this happens after ``spec.timeout``, so that users
    can correct it before.

    Raises:
        TransientError: the kubeConfig cannot be used yet.
    """
    try:
        cluster = await until_gone.enter_async_context(clusters.of(rec.obj))
        if cluster is clusters.local:
            await identities.require_account(rec.obj)
    except (KubeConfigError, StalledError) as error:
        if not _overdue(rec):
            raise TransientError(
                f"{error}; correct it within spec.timeout, or the applied objects stay",
                reason=error.reason,
            ) from error
        _leave(rec, error)
        return None
    except TransientError as error:
        if not isinstance(error.__cause__ or error, NotFoundError):
            raise
        _leave(rec, error)
        return None
    return Way(cluster=cluster, client=identities.impersonated(cluster.client, rec.obj, None))


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


def _leave(rec: Pass, error: PenstockError) -> None:
    rec.event(
        "error",
        FAILED,
        f"the applied objects stay: {error}; delete them by hand if they are not needed",
    )


def _named(refs: Sequence[ObjectRef]) -> str:
    shown = ", ".join(str(ref) for ref in refs[:_SHOWN])
    more = len(refs) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _seconds_since(timestamp: str | None) -> float:
    if timestamp is None:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
