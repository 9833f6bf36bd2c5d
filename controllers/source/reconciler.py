"""Turn any source into an artifact: resolve upstream, fetch when it changed, store, report.

There is one reconciler for all source kinds. A kind brings what ``controllers.source.source`` asks
of it; everything a user sees around that (conditions, events, retention, what counts as unchanged)
is decided here, once.

It does not write status: ``toolkit.kube.controller`` does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from controllers import caches
from controllers.source.source import (
    SUCCEEDED,
    Fetched,
    File,
    Policy,
    Scratch,
    Source,
    SourceObject,
    Tree,
    Upstream,
    offered,
)
from crds.meta import VERIFIED, Artifact
from toolkit.artifact.allowance import QuotaError
from toolkit.artifact.store import Owner, Store
from toolkit.errors import AccessDeniedError, PenstockError
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.verify.signature import Proof, VerificationError

TRUST: Final = "source.penstock.dev/trust"
"""Artifact metadata: the mode and the version of the keys that it was verified with."""

RECIPE: Final = "source.penstock.dev/recipe"
"""Artifact metadata: what it was made of and how, apart from its revision."""

Parents = Callable[[Any], Iterable[SourceObject]]
"""Returns the sources that one is made from, as far as they exist."""

T = TypeVar("T", bound=SourceObject)
U = TypeVar("U", bound=Upstream)


class SourceReconciler(Generic[T, U]):
    """The pass over one source object, whatever its kind."""

    def __init__(
        self, source: Source[T, U], store: Store, *, scratch: Path, policy: Policy, parents: Parents
    ) -> None:
        self._source = source
        self._store = store
        self._scratch = scratch
        self._policy = policy
        self._parents = parents

    async def reconcile(self, rec: Reconciliation[T]) -> Outcome:
        """Make the stored artifact match upstream."""
        async with Scratch(self._scratch) as scratch:
            return await self._advance(rec, scratch)

    async def _advance(self, rec: Reconciliation[T], scratch: Scratch) -> Outcome:
        obj = rec.obj
        stored = await self._stored(rec)
        stored = await self._permitted(rec, stored)
        upstream = await self._resolve(rec, stored, scratch)
        rec.revision = upstream.revision
        rec.status(upstream.status)
        if stored and _answers(stored, obj, upstream):
            return await self._settled(rec, stored)
        await rec.progress(f"building artifact: new upstream revision '{upstream.revision}'")
        try:
            artifact, fetched = await self._build(rec, upstream, scratch)
        except VerificationError:
            if stored and stored.metadata.get(TRUST, "") != upstream.trust:
                why = "which was not verified with the present mode and keys"
                await self._withdraw(rec, stored, why)
            raise
        except QuotaError:
            if stored:  # what is past its retention makes room for the next attempt
                await self._collect(rec, stored)
            raise
        built = {"artifact": msgspec.to_builtins(artifact)}
        for violation in self._policy.check(obj):
            rec.event("error", "SourcePolicyViolated", str(violation))
        rec.status({**upstream.observed, **fetched.status, **built})
        reason = self._source.reason(artifact)
        told = "NewArtifact" if reason == SUCCEEDED else reason
        rec.event("info", told, fetched.summary, {"digest": artifact.digest})
        return await self._settled(rec, artifact)

    async def _resolve(
        self, rec: Reconciliation[T], stored: Artifact | None, scratch: Scratch
    ) -> U:
        try:
            with _failing(rec, "FetchFailed"):
                return await self._source.resolve(rec.obj, scratch)
        except VerificationError:
            # Nobody can be trusted now: who was before must not go on being.
            if stored:
                await self._withdraw(rec, stored, "which nothing that is trusted now vouches for")
            raise

    async def _settled(self, rec: Reconciliation[T], artifact: Artifact) -> Outcome:
        """Tell that the store holds what the spec asks for, and drop what is too old."""
        message, reason = self._source.message(rec.obj, artifact), self._source.reason(artifact)
        rec.unmark("ArtifactOutdated")
        rec.mark("ArtifactInStorage", "True", reason, message)
        await self._collect(rec, artifact)
        return Outcome(message=message, reason=reason, requeue_after=rec.obj.spec.interval_seconds)

    async def finalize(self, rec: Reconciliation[T]) -> None:
        """Delete everything stored for the object."""
        await self._store.remove(self._owner(rec))
        rec.status({"artifact": None})

    async def _build(
        self, rec: Reconciliation[T], upstream: U, scratch: Scratch
    ) -> tuple[Artifact, Fetched]:
        into = await scratch.directory()
        with _failing(rec, "FetchFailed"):
            fetched = await self._source.fetch(rec.obj, upstream, into)
        _report(rec, fetched.proof)
        with _failing(rec, "StorageOperationFailed"):
            return await self._keep(rec, upstream, fetched, into), fetched

    async def _keep(
        self, rec: Reconciliation[T], upstream: U, fetched: Fetched, tree: Path
    ) -> Artifact:
        recipe = {RECIPE: upstream.recipe} if upstream.recipe else {}
        metadata = {**fetched.metadata, **recipe, **_proven(fetched, upstream)}
        _require_signer(self._policy, rec.obj, metadata)
        match fetched.content:
            case Tree(ignore=ignore):
                return await self._store.store(
                    self._owner(rec),
                    revision=upstream.revision,
                    filename=fetched.filename,
                    tree=tree,
                    ignore=ignore,
                    metadata=metadata,
                )
            case File(path=path):
                return await self._store.store_file(
                    self._owner(rec),
                    revision=upstream.revision,
                    filename=fetched.filename,
                    file=path,
                    metadata=metadata,
                )

    async def _permitted(self, rec: Reconciliation[T], stored: Artifact | None) -> Artifact | None:
        """Return the stored artifact unless a policy has come to forbid it; raise for the object.

        What a source is made from counts as well: a registry is asked for charts without a pass of
        its own, and a suspended neighbour has none.
        """
        await caches.complete(self._policy)
        try:
            self._policy.check(rec.obj)
            for parent in self._parents(rec.obj):
                self._policy.check(parent)
        except AccessDeniedError:
            rec.unmark("FetchFailed", "SourceVerified")
            if stored:
                await self._withdraw(rec, stored, "which a SourcePolicy forbids")
            raise
        if stored:
            try:
                self._policy.check_signer(rec.obj, stored.metadata)
            except AccessDeniedError as error:
                await self._withdraw(rec, stored, f"which a SourcePolicy forbids: {error}")
                return None
        return stored

    async def _withdraw(self, rec: Reconciliation[T], stored: Artifact, why: str) -> None:
        """Offer an artifact no longer that was not checked as is now demanded."""
        await self._store.remove(self._owner(rec))
        rec.status({"artifact": None})
        rec.unmark("ArtifactInStorage")
        rec.event(
            "error",
            "ArtifactWithdrawn",
            f"withdrew the artifact of revision '{stored.revision}', {why}",
        )

    async def _stored(self, rec: Reconciliation[T]) -> Artifact | None:
        """Return the artifact that status names, if it is still in the store, undamaged.

        Its address follows ``--storage-adv-addr``, whatever that was when it was stored.
        """
        if rec.obj.status.artifact is None:
            return None
        artifact = offered(rec.obj, self._source.kind.kind)
        if artifact and await self._store.intact(artifact):
            artifact = msgspec.structs.replace(artifact, url=self._store.url(artifact.path))
            rec.status({"artifact": artifact})
            return artifact
        rec.status({"artifact": None})
        rec.mark(
            "ArtifactOutdated", "True", "NoArtifact", "building artifact: disappeared from storage"
        )
        return None

    async def _collect(self, rec: Reconciliation[T], current: Artifact) -> None:
        removed = await self._store.collect(self._owner(rec), current=current)
        if removed:
            rec.event(
                "trace", "GarbageCollectionSucceeded", f"garbage collected {len(removed)} artifacts"
            )

    def _owner(self, rec: Reconciliation[T]) -> Owner:
        return Owner(kind=self._source.kind.kind, namespace=rec.key.namespace, name=rec.key.name)


_VERIFICATION: Final = (
    "VerificationError",
    "InvalidVerificationMode",
    "InvalidGitObject",
    "InvalidTagSignature",
    "InvalidCommitSignature",
    "ChartVerificationError",
)
_BUILDING: Final = (
    "ChartPackageError",
    "DependencyBuildError",
    "MetadataPatchError",
    "ValuesFilesError",
)
_TELLING: Final[Mapping[str, tuple[str, Literal["True", "False"]]]] = MappingProxyType(
    {
        "IncludeUnavailable": ("IncludeUnavailable", "True"),
        **dict.fromkeys(_BUILDING, ("BuildFailed", "True")),
        **dict.fromkeys(_VERIFICATION, ("SourceVerified", "False")),
    }
)
"""Reasons that have a condition of their own, and its status then."""


@contextmanager
def _failing(rec: Reconciliation[T], condition: str) -> Iterator[None]:
    """Mark ``condition``, or one that tells more, when the block fails; else remove it."""
    failures = (condition, "IncludeUnavailable", "BuildFailed")
    try:
        yield
    except PenstockError as error:
        rec.unmark(*failures)
        kind, status = _TELLING.get(error.reason, (condition, "True"))
        rec.mark(kind, status, error.reason, str(error))
        raise
    rec.unmark(*failures)


def _require_signer(policy: Policy, obj: SourceObject, metadata: Mapping[str, str]) -> None:
    """Refuse content that somebody else signed than a policy demands; the next may be right."""
    try:
        policy.check_signer(obj, metadata)
    except AccessDeniedError as exc:
        raise VerificationError(str(exc)) from exc


def _report(rec: Reconciliation[T], proof: Proof | None) -> None:
    """Tell who signed; what a policy let pass in spite of its signature is not verified."""
    if proof is None:
        rec.unmark("SourceVerified")
    elif proof.tolerated:
        rec.mark("SourceVerified", "Unknown", "Ignored", proof.message)
    else:
        rec.mark("SourceVerified", "True", "Succeeded", proof.message)


def _answers(stored: Artifact, obj: SourceObject, upstream: Upstream) -> bool:
    """Tell whether the stored artifact is what the spec asks for now."""
    status = msgspec.to_builtins(obj.status)
    return (
        stored.revision == upstream.revision
        and stored.metadata.get(TRUST, "") == upstream.trust
        and stored.metadata.get(RECIPE, "") == upstream.recipe
        and all(status.get(name) == value for name, value in upstream.observed.items())
    )


def _proven(fetched: Fetched, upstream: Upstream) -> dict[str, str]:
    """Return the metadata that say how an artifact was verified, and by whom it was signed."""
    if not upstream.trust:
        return {}
    proof = fetched.proof
    if proof is None or proof.tolerated or not fetched.vouched:
        return {TRUST: upstream.trust}
    return {TRUST: upstream.trust, VERIFIED: proof.message, **proof.facts}
