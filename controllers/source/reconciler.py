"""Turn any source into an artifact: resolve upstream, fetch when it changed, store, report.

There is one reconciler for all source kinds. A kind brings the two functions of ``Source``: where
upstream is now, and how its files get into a directory. Everything a user sees around that
(conditions, events, retention, what counts as unchanged) is decided here, once.

It does not write status: ``toolkit.kube.controller`` does.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from crds.kind import Kind
from crds.meta import VERIFIED, Artifact, ObjectMeta
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage
from toolkit.errors import PenstockError
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.objects import Json
from toolkit.verify.signature import VerificationError

TRUST: Final = "source.penstock.dev/trust"
"""Artifact metadata: the mode and the version of the keys that it was verified with."""


class _Spec(Protocol):
    @property
    def suspend(self) -> bool: ...
    @property
    def interval_seconds(self) -> float: ...


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class SourceObject(Protocol):
    """What every source kind has."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return namespace, name and the like."""

    @property
    def spec(self) -> _Spec:
        """Return what the user asks for."""

    @property
    def status(self) -> _Status:
        """Return what was stored last."""


T = TypeVar("T", bound=SourceObject)
T_contra = TypeVar("T_contra", bound=SourceObject, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where a source is now, found without fetching its content.

    ``observed`` holds the status fields beside the revision that decide whether the stored
    artifact still answers the spec; a difference to the object's status means: fetch again.
    ``trust`` names the mode and the version of the keys that a signature is checked against, and
    is empty if none is demanded; the artifact keeps it, and a difference means the same.
    """

    revision: str
    observed: Json = field(default_factory=dict)
    trust: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a fetch brought: where the files lie is the caller's business.

    ``summary`` is the event's text; ``verified`` names who signed, in words, or is empty. It goes
    on to consumers if it is ``vouched`` to hold for everything that was brought.
    """

    filename: str
    summary: str
    ignore: Ignore
    verified: str = ""
    vouched: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)


U = TypeVar("U", bound=Upstream)


class Source(Protocol[T_contra, U]):
    """One kind of source: the only code a new kind adds."""

    @property
    def kind(self) -> Kind[msgspec.Struct]:
        """Return the row of ``crds.KINDS``."""

    async def resolve(self, obj: T_contra) -> U:
        """Return where upstream is now. Raises a typed error when it cannot be told."""
        ...

    async def fetch(self, obj: T_contra, upstream: U, into: Path) -> Fetched:
        """Bring the files of ``upstream`` into the empty directory ``into`` and verify them."""
        ...


class SourceReconciler(Generic[T, U]):
    """The pass over one source object, whatever its kind."""

    def __init__(self, source: Source[T, U], storage: Storage, *, scratch: Path) -> None:
        self._source = source
        self._storage = storage
        self._scratch = scratch

    async def reconcile(self, rec: Reconciliation[T]) -> Outcome:
        """Make the stored artifact match upstream."""
        obj, interval = rec.obj, rec.obj.spec.interval_seconds
        stored = await self._stored(rec)
        with _failing(rec, "FetchFailed"):
            upstream = await self._source.resolve(obj)
        rec.revision = upstream.revision
        if stored and _answers(stored, obj, upstream):
            rec.unmark("ArtifactOutdated")
            rec.mark("ArtifactInStorage", "True", "Succeeded", _stored_message(stored))
            await self._collect(rec, stored)
            return Outcome(message=_stored_message(stored), requeue_after=interval)
        await rec.progress(f"building artifact: new upstream revision '{upstream.revision}'")
        try:
            artifact, fetched = await self._build(rec, upstream)
        except VerificationError:
            if stored and stored.metadata.get(TRUST, "") != upstream.trust:
                await self._withdraw(rec, stored)
            raise
        rec.status({**upstream.observed, "artifact": msgspec.to_builtins(artifact)})
        rec.unmark("ArtifactOutdated")
        rec.mark("ArtifactInStorage", "True", "Succeeded", _stored_message(artifact))
        rec.event("info", "NewArtifact", fetched.summary, {"digest": artifact.digest})
        await self._collect(rec, artifact)
        return Outcome(message=_stored_message(artifact), requeue_after=interval)

    async def finalize(self, rec: Reconciliation[T]) -> None:
        """Delete everything stored for the object."""
        await self._storage.remove(self._owner(rec))

    async def _build(self, rec: Reconciliation[T], upstream: U) -> tuple[Artifact, Fetched]:
        async with scratch_directory(self._scratch) as tree:
            with _failing(rec, "FetchFailed"):
                fetched = await self._source.fetch(rec.obj, upstream, tree)
            if fetched.verified:
                rec.mark("SourceVerified", "True", "Succeeded", fetched.verified)
            else:
                rec.unmark("SourceVerified")
            with _failing(rec, "StorageOperationFailed"):
                artifact = await self._storage.store(
                    self._owner(rec),
                    revision=upstream.revision,
                    filename=fetched.filename,
                    tree=tree,
                    ignore=fetched.ignore,
                    metadata={**fetched.metadata, **_proof(fetched, upstream)},
                )
        return artifact, fetched

    async def _withdraw(self, rec: Reconciliation[T], stored: Artifact) -> None:
        """Offer an artifact no longer that was not checked as is now demanded."""
        await self._storage.remove(self._owner(rec))
        rec.status({"artifact": None})
        rec.unmark("ArtifactInStorage")
        rec.event(
            "error",
            "ArtifactWithdrawn",
            f"withdrew the artifact of revision '{stored.revision}', "
            "which was not verified with the present mode and keys",
        )

    async def _stored(self, rec: Reconciliation[T]) -> Artifact | None:
        """Return the artifact that status names, if it is still in the store, undamaged.

        Its address follows ``--storage-adv-addr``, whatever that was when it was stored.
        """
        artifact = rec.obj.status.artifact
        if artifact is None:
            return None
        if await self._storage.intact(artifact):
            artifact = msgspec.structs.replace(artifact, url=self._storage.url(artifact.path))
            rec.status({"artifact": artifact})
            return artifact
        rec.status({"artifact": None})
        rec.mark(
            "ArtifactOutdated", "True", "NoArtifact", "building artifact: disappeared from storage"
        )
        return None

    async def _collect(self, rec: Reconciliation[T], current: Artifact) -> None:
        removed = await self._storage.collect(self._owner(rec), current=current)
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
)
_TELLING: Final[Mapping[str, tuple[str, Literal["True", "False"]]]] = MappingProxyType(
    {
        "IncludeUnavailable": ("IncludeUnavailable", "True"),
        **dict.fromkeys(_VERIFICATION, ("SourceVerified", "False")),
    }
)
"""Reasons that have a condition of their own, and its status then."""


@contextmanager
def _failing(rec: Reconciliation[T], condition: str) -> Iterator[None]:
    """Mark ``condition``, or one that tells more, when the block fails; else remove it."""
    try:
        yield
    except PenstockError as error:
        rec.unmark(condition, "IncludeUnavailable")
        kind, status = _TELLING.get(error.reason, (condition, "True"))
        rec.mark(kind, status, error.reason, str(error))
        raise
    rec.unmark(condition, "IncludeUnavailable")


@asynccontextmanager
async def scratch_directory(parent: Path) -> AsyncIterator[Path]:
    """Give an empty directory below ``parent`` and remove it afterwards, off the event loop."""
    directory = await asyncio.to_thread(_make_directory, parent)
    try:
        yield directory
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))


def _make_directory(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))


def _answers(stored: Artifact, obj: SourceObject, upstream: Upstream) -> bool:
    """Tell whether the stored artifact is what the spec asks for now."""
    status = msgspec.to_builtins(obj.status)
    return (
        stored.revision == upstream.revision
        and stored.metadata.get(TRUST, "") == upstream.trust
        and all(status.get(name) == value for name, value in upstream.observed.items())
    )


def _proof(fetched: Fetched, upstream: Upstream) -> dict[str, str]:
    """Return the metadata that say how an artifact was verified."""
    if not upstream.trust:
        return {}
    return {TRUST: upstream.trust} | ({VERIFIED: fetched.verified} if fetched.vouched else {})


def _stored_message(artifact: Artifact) -> str:
    return f"stored artifact for revision '{artifact.revision}'"
