"""Reconcile any kind of source: resolve upstream, fetch if it has changed, store, report.

All kinds of sources share this reconciler. A kind implements the interface in
``controllers.source.source``. Conditions, events, retention, and the rule for unchanged sources are
the same for all kinds, and are here.

This module does not write the status; ``toolkit.kube.controller`` does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from controllers import originrevision
from controllers.source import includes, proofs
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
from crds.source_parts import LinkedSourceStatus
from toolkit.artifact import layout
from toolkit.artifact.quota import QuotaError
from toolkit.artifact.store import Owner, Store
from toolkit.errors import AccessDeniedError, PenstockError
from toolkit.kube import caches
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.policy import origins
from toolkit.policy.origins import RECORD
from toolkit.verify.signature import VerificationError, VerificationModeError

TRUST: Final = "source.penstock.dev/trust"
"""Artifact metadata: the mode and the version of the keys with which it was verified."""

RECIPE: Final = "source.penstock.dev/recipe"
"""Artifact metadata: a digest of all inputs of the artifact other than its revision."""

Parents = Callable[[Any], Iterable[SourceObject]]
"""Returns those existing sources from which a source is made."""

T = TypeVar("T", bound=SourceObject)
U = TypeVar("U", bound=Upstream)


class SourceReconciler(Generic[T, U]):
    """Reconciles the sources of one kind."""

    def __init__(
        self, source: Source[T, U], store: Store, *, scratch: Path, policy: Policy, parents: Parents
    ) -> None:
        self._source = source
        self._store = store
        self._scratch = scratch
        self._policy = policy
        self._parents = parents

    async def reconcile(self, rec: Reconciliation[T]) -> Outcome:
        """Bring the stored artifact up to date with upstream."""
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
            await self._charge(rec, upstream)
            rec.about = originrevision.about(stored)
            stored = await self._located(rec, stored, upstream)
            proven = await self._proven(rec, stored, upstream) if stored else None
            if proven:
                return await self._settled(rec, proven)
        elif stored:
            _outdate(rec, stored, upstream)
        building = f"building artifact: new upstream revision '{upstream.revision}'"
        try:
            artifact, fetched = await rec.during(self._build(rec, upstream, scratch), building)
        except (VerificationError, VerificationModeError):
            if stored and stored.metadata.get(TRUST, "") != upstream.trust:
                why = "which was not verified with the current mode and keys"
                await self._withdraw(rec, stored, why)
            raise
        except QuotaError:
            if stored:  # Deleting expired artifacts makes room for the next attempt.
                await self._collect(rec, stored)
            raise
        for violation in self._policy.check(obj):
            rec.event("error", "SourcePolicyViolated", str(violation))
        rec.status({**upstream.observed, **fetched.status})
        reason = self._source.reason(artifact)
        told = "NewArtifact" if reason == SUCCEEDED else reason
        rec.about = originrevision.about(artifact)
        about = {**fetched.about, "verified": artifact.metadata.get(VERIFIED, "")}
        rec.event("info", told, fetched.summary, {**about, "digest": artifact.digest})
        return await self._settled(rec, artifact)

    async def _resolve(
        self, rec: Reconciliation[T], stored: Artifact | None, scratch: Scratch
    ) -> U:
        try:
            with _failing(rec, "FetchFailed"):
                return await self._source.resolve(rec.obj, scratch)
        except VerificationError:
            # There is no trusted key or identity now, so the stored artifact must not stay in use.
            if stored:
                await self._withdraw(
                    rec, stored, "which no currently trusted key or identity verifies"
                )
            raise

    async def _settled(self, rec: Reconciliation[T], artifact: Artifact) -> Outcome:
        """Report that the store has the artifact that the spec asks for, and delete old ones."""
        message, reason = self._source.message(rec.obj, artifact), self._source.reason(artifact)
        self._offer(rec, artifact)
        # These conditions may be left from a revision that upstream no longer has.
        rec.unmark("ArtifactOutdated", "StorageOperationFailed")
        rec.mark("ArtifactInStorage", "True", reason, message)
        await self._collect(rec, artifact)
        due = proofs.left(artifact, datetime.now(UTC))
        interval = rec.obj.spec.interval_seconds
        after = interval if due is None else min(interval, max(due, proofs.SOONEST))
        return Outcome(message=message, reason=reason, requeue_after=after)

    async def _proven(
        self, rec: Reconciliation[T], stored: Artifact, upstream: U
    ) -> Artifact | None:
        """Return the stored artifact with a valid proof; None if it must be fetched again.

        Verifying the signature again needs no fetch. But if the result differs from the earlier
        one, the artifact must be fetched.
        """
        if not proofs.shown(rec, stored, demanded=bool(upstream.trust)):
            return None
        due = proofs.left(stored, datetime.now(UTC))
        if upstream.prove is None or due is None or due > 0:
            if "requested" in rec.triggers:  # Otherwise each interval would cost a write.
                told = f"artifact up-to-date with remote revision: '{upstream.revision}'"
                rec.event("trace", "ArtifactUpToDate", told)
            return stored
        try:
            with _failing(rec, "FetchFailed"):
                proof = await upstream.prove()
        except VerificationError:
            await self._withdraw(rec, stored, "whose signature is no longer valid")
            raise
        metadata = proofs.renewed(rec, stored, proof)
        if metadata is None:
            return None
        proofs.show(rec, proof)
        return msgspec.structs.replace(stored, metadata=metadata)

    async def finalize(self, rec: Reconciliation[T]) -> None:
        """Delete all artifacts of the object."""
        await self._store.remove(self._owner(rec))
        self._offer(rec, None)

    async def _build(
        self, rec: Reconciliation[T], upstream: U, scratch: Scratch
    ) -> tuple[Artifact, Fetched]:
        into = await scratch.directory()
        with _failing(rec, "FetchFailed"):
            fetched = await self._source.fetch(rec.obj, upstream, into)
        proofs.show(rec, fetched.proof)
        with _failing(rec, "StorageOperationFailed"):
            return await self._keep(rec, upstream, fetched, into), fetched

    async def _keep(
        self, rec: Reconciliation[T], upstream: U, fetched: Fetched, tree: Path
    ) -> Artifact:
        recipe = {RECIPE: upstream.recipe} if upstream.recipe else {}
        signed = {TRUST: upstream.trust} if upstream.trust else {}
        signed |= proofs.metadata(fetched.proof, vouched=fetched.vouched)
        metadata = {**fetched.metadata, **recipe, **signed, RECORD: _record(rec.obj, upstream)}
        _require_allowed(self._policy, rec.obj, metadata)
        await self._charge(rec, upstream)
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

    async def _charge(self, rec: Reconciliation[T], upstream: U) -> None:
        """Count the artifacts in the quota of the namespace that asked for them."""
        if upstream.charged:
            await self._store.charge(self._owner(rec), upstream.charged)

    async def _permitted(self, rec: Reconciliation[T], stored: Artifact | None) -> Artifact | None:
        """Return the stored artifact; withdraw it and return None if a policy now forbids it.

        The sources from which an object is made are checked too, because some of them are not
        reconciled: HelmRepositories of type ``oci``, and suspended sources.

        Raises:
            AccessDeniedError: a policy forbids the object, or a source from which it is made.
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
        # An artifact without a record gets one in this reconciliation, and is checked then.
        if stored and RECORD in stored.metadata:
            return await self._allowed(rec, stored)
        return stored

    async def _located(
        self, rec: Reconciliation[T], stored: Artifact, upstream: U
    ) -> Artifact | None:
        """Return the stored artifact with its current origin; None if a policy forbids it."""
        record = _record(rec.obj, upstream)
        if origins.same(stored.metadata, record):
            return stored
        metadata = {**stored.metadata, RECORD: record}
        return await self._allowed(rec, msgspec.structs.replace(stored, metadata=metadata))

    async def _allowed(self, rec: Reconciliation[T], stored: Artifact) -> Artifact | None:
        """Return an artifact; withdraw it and return None if a policy forbids it."""
        try:
            self._policy.check_artifact(rec.obj, stored.metadata)
        except AccessDeniedError as error:
            await self._withdraw(rec, stored, f"which a SourcePolicy forbids: {error}")
            return None
        return stored

    async def _withdraw(self, rec: Reconciliation[T], stored: Artifact, why: str) -> None:
        """Delete the stored artifact, remove it from the status, and send an event with ``why``."""
        await self._store.remove(self._owner(rec))
        self._offer(rec, None)
        rec.event(
            "error",
            "ArtifactWithdrawn",
            f"withdrew the artifact of revision '{stored.revision}', {why}",
        )

    async def _stored(self, rec: Reconciliation[T]) -> Artifact | None:
        """Return the artifact in the status, if the store still has it undamaged.

        Its URL is updated to the current ``--storage-adv-addr``.
        """
        if rec.obj.status.artifact is None:
            return None
        artifact = offered(rec.obj, self._source.kind.kind)
        if artifact and await self._store.intact(artifact):
            artifact = msgspec.structs.replace(artifact, url=self._store.url(artifact.path))
            self._offer(rec, artifact)
            return artifact
        self._offer(rec, None)
        rec.mark(
            "ArtifactOutdated", "True", "NoArtifact", "building artifact: disappeared from storage"
        )
        return None

    def _offer(self, rec: Reconciliation[T], artifact: Artifact | None) -> None:
        """Set the artifact in the status, and ``status.url`` for the kinds that have this field."""
        rec.status({"artifact": artifact})
        if artifact is None:
            rec.unmark("ArtifactInStorage")
        if isinstance(rec.obj.status, LinkedSourceStatus):
            name = layout.latest(Path(artifact.path).name) if artifact else ""
            url = self._store.url(f"{self._owner(rec).path}/{name}") if name else None
            rec.status({"url": url})

    async def _collect(self, rec: Reconciliation[T], current: Artifact) -> None:
        """Delete expired artifacts; a failure sends an event, but fails no reconciliation."""
        try:
            removed = await self._store.collect(self._owner(rec), current=current)
        except PenstockError as error:
            told = f"garbage collection failed, and is tried again: {error}"
            rec.event("error", "GarbageCollectionFailed", told)
            return
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
        includes.REASON: ("IncludeUnavailable", "True"),
        includes.NOT_FOUND: ("IncludeUnavailable", "True"),
        includes.NO_ARTIFACT: ("IncludeUnavailable", "True"),
        includes.COPY_FAILURE: ("StorageOperationFailed", "True"),
        **dict.fromkeys(_BUILDING, ("BuildFailed", "True")),
        **dict.fromkeys(_VERIFICATION, ("SourceVerified", "False")),
    }
)
"""The conditions for some reasons of errors, with their status."""


@contextmanager
def _failing(rec: Reconciliation[T], condition: str) -> Iterator[None]:
    """Set ``condition``, or the one in ``_TELLING``, if the block fails; else remove it."""
    failures = (condition, "IncludeUnavailable", "BuildFailed")
    try:
        yield
    except PenstockError as error:
        rec.unmark(*failures)
        kind, status = _TELLING.get(error.reason, (condition, "True"))
        rec.mark(kind, status, error.reason, str(error))
        raise
    rec.unmark(*failures)


def _record(obj: SourceObject, upstream: Upstream) -> str:
    return origins.record(origins.own(msgspec.to_builtins(obj)), upstream.parts)


def _require_allowed(policy: Policy, obj: SourceObject, metadata: Mapping[str, str]) -> None:
    """Refuse content that a policy forbids, for example because of its signer.

    The error is not final, because the next revision may be allowed.
    """
    try:
        policy.check_artifact(obj, metadata)
    except AccessDeniedError as exc:
        raise VerificationError(str(exc)) from exc


def _answers(stored: Artifact, obj: SourceObject, upstream: Upstream) -> bool:
    """Tell whether the stored artifact is the one that the spec asks for now."""
    status = msgspec.to_builtins(obj.status)
    return (
        stored.revision == upstream.revision
        and stored.metadata.get(TRUST, "") == upstream.trust
        and stored.metadata.get(RECIPE, "") == upstream.recipe
        and (
            upstream.content_addressed
            or origins.fetched_alike(stored.metadata, _record(obj, upstream))
        )
        and all(status.get(name) == value for name, value in upstream.observed.items())
    )


def _outdate(rec: Reconciliation[T], stored: Artifact, upstream: Upstream) -> None:
    """Set ArtifactOutdated if there is a new revision or another include, not for a new spec."""
    included = msgspec.to_builtins(rec.obj.status).get(_INCLUDED)
    if stored.revision != upstream.revision:
        told = f"new upstream revision '{upstream.revision}'"
        rec.mark("ArtifactOutdated", "True", upstream.news, told)
    elif included != upstream.observed.get(_INCLUDED):
        told = "included artifacts differ from those of the last reconciliation"
        rec.mark("ArtifactOutdated", "True", "IncludeChange", told)


_INCLUDED: Final = "includedArtifacts"
