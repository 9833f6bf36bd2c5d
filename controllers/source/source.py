"""What a kind of source brings: where upstream is now, and how its files get into a directory.

Everything a user sees around that (conditions, events, retention, what counts as unchanged) is
decided once, in ``controllers.source.reconciler``.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

import msgspec

from crds.kind import Kind
from crds.meta import Artifact, ObjectMeta
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.store import Owner
from toolkit.objects import Json
from toolkit.policy.origins import Origin
from toolkit.verify.signature import Proof

SUCCEEDED: Final = "Succeeded"
"""Reason of most good ends."""


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


def offered(obj: SourceObject, kind: str) -> Artifact | None:
    """Return the artifact that a source offers.

    An artifact outside the source's own path is ignored: another client wrote it into the status,
    possibly to read the artifact of another source.
    """
    artifact = obj.status.artifact
    owner = Owner(kind=kind, namespace=obj.metadata.namespace, name=obj.metadata.name)
    return artifact if artifact and owner.owns(artifact.path) else None


T_contra = TypeVar("T_contra", bound=SourceObject, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where a source is now, found without fetching its content.

    ``observed`` holds the status fields beside the revision that decide whether the stored
    artifact still answers the spec; a difference to the object's status means: fetch again.
    ``trust`` names the mode and the version of the keys that a signature is checked against, and
    is empty if none is demanded; ``recipe`` is a digest of all else that shapes the artifact. The
    artifact keeps both, and a difference means the same. ``status`` holds fields that are true
    whether or not anything has to be fetched. ``prove`` verifies the signature without a fetch,
    where a kind can do that. ``news`` is the reason that a stored artifact is outdated for.

    ``parts`` are the origins of what it is made from, beside the source itself. Another address of
    the source or of a part means to fetch again, unless the revision and all of the above can only
    be those of one content (``content_addressed``): then the artifact is told to come from there.
    """

    revision: str
    observed: Json = field(default_factory=dict)
    trust: str = ""
    recipe: str = ""
    status: Json = field(default_factory=dict)
    prove: Callable[[], Awaitable[Proof]] | None = field(default=None, repr=False, compare=False)
    news: str = "NewRevision"
    parts: tuple[Origin, ...] = ()
    content_addressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The artifact is the directory that was filled, packed, without what is ignored."""

    ignore: Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The artifact is this file as it is."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a fetch brought.

    ``summary`` is the event's text; ``proof`` tells who signed, if that was demanded. It goes on
    to consumers if it is ``vouched`` to hold for everything that was brought. ``status`` holds
    status fields that are known only now; ``about`` is metadata of the event.
    """

    filename: str
    summary: str
    content: Tree | File
    proof: Proof | None = None
    vouched: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


U = TypeVar("U", bound=Upstream)


class Source(Protocol[T_contra, U]):
    """One kind of source: the only code a new kind adds."""

    @property
    def kind(self) -> Kind[msgspec.Struct]:
        """Return the row of ``crds.KINDS``."""

    async def resolve(self, obj: T_contra, scratch: "Scratch") -> U:
        """Return where upstream is now. Raises a typed error when it cannot be told.

        Where that cannot be told without a download, it goes into ``scratch``.
        """
        ...

    async def fetch(self, obj: T_contra, upstream: U, into: Path) -> Fetched:
        """Bring the files of ``upstream`` into the empty directory ``into`` and verify them."""
        ...

    def message(self, obj: T_contra, artifact: Artifact) -> str:
        """Return the Ready message for a stored artifact."""

    def reason(self, artifact: Artifact) -> str:
        """Return the reason beside it, and of the event if that is not ``Succeeded``."""


class Policy(Protocol):
    """What may exist and be offered (``controllers.sourcepolicies``)."""

    @property
    def synced(self) -> bool:
        """Tell whether policies are known."""

    async def wait_synced(self) -> None:
        """Wait until they are."""

    def check(self, obj: SourceObject) -> Iterable[object]:
        """Let a source exist; return what is only to be told.

        Raises:
            AccessDeniedError: a policy forbids it.
            WaitingError: policies are not known yet.
        """

    def check_artifact(self, obj: SourceObject, metadata: Mapping[str, str]) -> Iterable[object]:
        """Let it offer an artifact with these metadata; else as ``check``."""


class Scratch:
    """Directories for one pass, removed with all they hold when it ends; use ``async with``."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._made: list[Path] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for directory in self._made:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))

    async def directory(self) -> Path:
        """Make an empty directory."""
        made = await asyncio.to_thread(_make_directory, self._parent)
        self._made.append(made)
        return made


def _make_directory(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))
