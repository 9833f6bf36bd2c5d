"""What a deleted Kustomization takes with it (``spec.deletionPolicy``).

Whatever happens, deletion ends: where the account to delete with is gone, or a kubeConfig stays
unusable, the objects stay and an event says so (Flux does the former), because a namespace must not
hang on what went first.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from controllers.kustomize.clusters import Clusters
from controllers.kustomize.identity import Identities
from controllers.kustomize.memory import Memory
from controllers.kustomize.settings import Settings
from crds.kustomize import Kustomization
from toolkit.apply import prune
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.kube.client import Client
from toolkit.kube.controller import Reconciliation
from toolkit.kube.errors import KubeConfigError, NotFoundError
from toolkit.objects import GroupVersionKind, ObjectRef

Pass = Reconciliation[Kustomization]

_LOOK_AGAIN_SECONDS: Final = 2.0
_SHOWN: Final = 10
_SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizationFinalizer:
    """Ends the life of a Kustomization."""

    settings: Settings
    clusters: Clusters
    identities: Identities
    memory: Memory

    async def finalize(self, rec: Pass) -> None:
        """Delete what the policy says, then forget everything.

        Raises:
            TransientError: an object could not be deleted.
            WaitingError: ``WaitForTermination``, and some are still there.
        """
        refs = self.memory.inventory(rec.obj)
        spec = rec.obj.spec
        if refs and not spec.suspend and prune.deletes(spec.deletion_policy, prunes=spec.prune):
            await self._delete(rec, refs)
        self.clusters.forget(rec.key)
        self.memory.forget(rec.key)

    async def _delete(self, rec: Pass, refs: tuple[ObjectRef, ...]) -> None:
        async with AsyncExitStack() as until_gone:
            client = await self._client(rec, until_gone)
            if client is None:
                return
            options = self.settings.apply_options(rec.obj)
            # what we are about to delete must not come back as drift
            self.clusters.forget(rec.key)
            pruned = await prune.prune(
                client, refs, owner=options.owner, concurrency=options.concurrency
            )
            if pruned.lines:
                rec.event("info", "ReconciliationSucceeded", "\n".join(pruned.lines))
            if pruned.failed:
                raise TransientError(pruned.message, reason="PruneFailed")
            if rec.obj.spec.deletion_policy == "WaitForTermination":
                going = (*pruned.deleted, *pruned.terminating)
                await self._require_gone(rec, client, going)

    async def _client(self, rec: Pass, until_gone: AsyncExitStack) -> Client | None:
        """Return the client to delete with; None if its account or cluster is gone for good.

        A kubeConfig that can never be used is waited for as long as the spec allows for a pass:
        somebody may correct it.
        """
        try:
            cluster = await until_gone.enter_async_context(self.clusters.of(rec.obj))
            account = self.identities.account(rec.obj)
            if cluster is self.clusters.local:
                await cluster.client.get(_SERVICE_ACCOUNT, account.name, account.namespace)
        except (KubeConfigError, StalledError) as error:
            if _seconds_since(rec.obj.metadata.deletion_timestamp) <= rec.obj.spec.timeout_seconds:
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
        return self.identities.impersonated(cluster.client, rec.obj, None)

    async def _require_gone(self, rec: Pass, client: Client, refs: tuple[ObjectRef, ...]) -> None:
        """Look again until everything is gone, or until the timeout since the deletion began."""
        left = await prune.remaining(client, refs)
        if not left:
            return
        if _seconds_since(rec.obj.metadata.deletion_timestamp) > rec.obj.spec.timeout_seconds:
            rec.event("error", "PruneFailed", f"timeout waiting for termination of {_named(left)}")
            return
        raise WaitingError(
            f"waiting for termination of {_named(left)}",
            reason="Progressing",
            retry_after=_LOOK_AGAIN_SECONDS,
        )


def _leave(rec: Pass, error: PenstockError) -> None:
    rec.event(
        "error",
        "PruneFailed",
        f"the applied objects stay: {error}; delete them by hand if they should go",
    )


def _named(refs: Sequence[ObjectRef]) -> str:
    shown = ", ".join(str(ref) for ref in refs[:_SHOWN])
    more = len(refs) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _seconds_since(timestamp: str | None) -> float:
    if timestamp is None:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
