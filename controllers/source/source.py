"""The interface of a kind of source: resolve the upstream revision, and fetch its files.

Conditions, events, retention, and the rule for unchanged sources are the same for all kinds, in
``controllers.source.reconciler``.
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
"""The reason of most successful reconciliations."""


class _Spec(Protocol):
    @property
    def suspend(self) -> bool: ...
    @property
    def interval_seconds(self) -> float: ...


class _Status(Protocol):
    @property
    def artifact(self) -> Artifact | None: ...


class SourceObject(Protocol):
    """The fields that all kinds of sources have."""

    @property
    def metadata(self) -> ObjectMeta:
        """Return the metadata."""

    @property
    def spec(self) -> _Spec:
        """Return the spec."""

    @property
    def status(self) -> _Status:
        """Return the status, which has the stored artifact."""


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
    """The upstream revision of a source, found without fetching its content.

    The stored artifact is fetched again if ``revision``, ``observed``, ``trust`` or ``recipe``
    differs from it.

    - ``observed`` are status fields with inputs of the artifact other than the revision.
    - ``trust`` is the mode and the version of the keys for the signature; empty if the spec asks
      for none. The metadata of the artifact contain it.
    - ``recipe`` is a digest of all other inputs. The metadata of the artifact contain it.
    - ``status`` are status fields to set in any case.
    - ``prove`` verifies the signature without a fetch, if the kind supports that.
    - ``news`` is the reason of ArtifactOutdated for a new revision.
    - ``parts`` are the origins of other sources from which the artifact is made.
    - ``charged`` is the namespace whose storage quota the artifacts count in, for kinds that others
      make in the source's namespace; empty for all other kinds.
    - ``content_addressed`` tells that the fields above identify the content. Then another address
      of the source or of a part only changes the recorded origin. Otherwise the artifact is
      fetched again.
    """

    revision: str
    observed: Json = field(default_factory=dict)
    trust: str = ""
    recipe: str = ""
    status: Json = field(default_factory=dict)
    prove: Callable[[], Awaitable[Proof]] | None = field(default=None, repr=False, compare=False)
    news: str = "NewRevision"
    parts: tuple[Origin, ...] = ()
    charged: str = ""
    content_addressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The artifact is a tarball of the filled directory, without ignored files."""

    ignore: Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The artifact is this file, unchanged."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of a fetch.

    - ``filename`` is the name of the artifact's file.
    - ``summary`` is the text of the event, ``about`` is its metadata.
    - ``proof`` names the signer, if the spec asks for a signature.
    - ``vouched`` tells that the signature covers all fetched content. Only then the metadata of the
      artifact name the signer.
    - ``metadata`` are further metadata of the artifact.
    - ``status`` are status fields that are known only after the fetch.
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
    """One kind of source. A new kind only needs to implement this interface."""

    @property
    def kind(self) -> Kind[msgspec.Struct]:
        """Return the kind, a row of ``crds.KINDS``."""

    async def resolve(self, obj: T_contra, scratch: "Scratch") -> U:
        """Return the upstream revision.

        If this needs a download, the files go into ``scratch``.

        Raises:
            PenstockError: the revision cannot be determined.
        """
        ...

    async def fetch(self, obj: T_contra, upstream: U, into: Path) -> Fetched:
        """Fetch the files of ``upstream`` into the empty directory ``into``, and verify them.

        Raises:
            PenstockError: the files cannot be fetched, or the signature is not valid.
        """
        ...

    def message(self, obj: T_contra, artifact: Artifact) -> str:
        """Return the Ready message for a stored artifact."""

    def reason(self, artifact: Artifact) -> str:
        """Return the reason of Ready, and of the event if it is not ``Succeeded``."""


class Policy(Protocol):
    """Decides which sources and artifacts are allowed (``controllers.sourcepolicies``)."""

    @property
    def synced(self) -> bool:
        """Tell whether the policies have been listed."""

    async def wait_synced(self) -> None:
        """Wait until the policies have been listed."""

    def check(self, obj: SourceObject) -> Iterable[object]:
        """Require that policies allow a source; return violations that are only reported.

        Raises:
            AccessDeniedError: a policy forbids the source.
            WaitingError: the policies have not been listed yet.
        """

    def check_artifact(self, obj: SourceObject, metadata: Mapping[str, str]) -> Iterable[object]:
        """Require that policies allow an artifact with these metadata; otherwise as ``check``."""


class Scratch:
    """Directories for one reconciliation, removed with their content on exit (``async with``)."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._made: list[Path] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for directory in self._made:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))

    async def directory(self) -> Path:
        """Create an empty directory."""
        made = await asyncio.to_thread(_make_directory, self._parent)
        self._made.append(made)
        return made


def _make_directory(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))
