"""The interface of an artifact store, for sources, other users in the process, and servers.

A store has files at ``<kind>/<namespace>/<name>/<file>``, each with its digest. The backends are a
local directory (``storage``) and object storage (``bucket``).
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from crds.meta import Artifact
from toolkit.artifact import layout, retention
from toolkit.artifact.about import About, Backend, Kept
from toolkit.artifact.archive import Packed
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.retention import Stored

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The source object that artifacts belong to."""

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the owner's directory below the root.

        Raises:
            StalledError: a part could lead out of the root.
        """
        parts = (self.kind.lower(), self.namespace, self.name)
        return "/".join(layout.require_name(part) for part in parts)

    def file(self, filename: str) -> str:
        """Return the path of the owner's artifact with this name.

        Raises:
            StalledError: a part could lead out of the root, or is the link to the newest.
        """
        return f"{self.path}/{layout.require_filename(filename)}"

    def owns(self, path: str) -> bool:
        """Tell whether a path is that of an artifact of the owner's."""
        return path.rpartition("/")[0] == self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """An artifact opened for reading."""

    name: str
    file: FileIO
    size: int
    modified: float
    digest: str
    intact: bool
    """Whether the file is undamaged."""


class Store(Protocol):
    """The interface of all backends.

    Every method raises ``TransientError`` if the storage fails, and ``StalledError`` if a name
    cannot be part of a path.
    """

    @property
    def backend(self) -> Backend:
        """Tell where the bytes lie."""

    async def store(  # noqa: PLR0913  # the fields of an artifact
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        tree: Path,
        ignore: Ignore,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Artifact:
        """Pack ``tree`` and keep it as the owner's newest artifact."""
        ...

    async def store_file(
        self,
        owner: Owner,
        *,
        revision: str,
        filename: str,
        file: Path,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Artifact:
        """Keep a copy of ``file``, byte for byte, as the owner's newest artifact."""
        ...

    def local(self, artifact: Artifact) -> AbstractAsyncContextManager[Path]:
        """Yield the artifact as a local file that has its digest, for reading only.

        Raises ``TransientError`` if there is no such artifact, or if it was deleted or replaced
        during the block.
        """
        ...

    def url(self, path: str) -> str:
        """Return the address at which consumers fetch the artifact with this path."""
        ...

    async def open(self, path: str) -> Readable | None:
        """Open an artifact, or the target of a ``latest`` link; None if there is none.

        The caller closes the file.
        """
        ...

    async def intact(self, artifact: Artifact) -> bool:
        """Tell whether the artifact exists and has its digest."""
        ...

    async def kept(self, owner: Owner) -> tuple[Kept, ...]:
        """Return the owner's artifacts, the newest first."""
        ...

    async def collect(self, owner: Owner, *, current: Artifact | None) -> tuple[str, ...]:
        """Delete artifacts past their retention, never ``current``; return their names."""
        ...

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner."""
        ...

    async def charge(self, owner: Owner, namespace: str) -> None:
        """Count the owner's artifacts in the quota of a namespace from now on."""
        ...

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        """Return the bytes that owners of a kind hold, in one namespace or in all."""
        ...


def kept(
    files: Iterable[Stored], *, abouts: Mapping[str, About], ttl: float, records: int
) -> tuple[Kept, ...]:
    """Return the artifacts with recorded revision and metadata, the newest first."""
    known = [file for file in files if file.name in abouts]
    expiries = retention.expiries(known, ttl=ttl, records=records)
    return tuple(
        Kept(
            file=file.name,
            digest=abouts[file.name].digest,
            size=file.size,
            modified=file.modified,
            revision=abouts[file.name].revision,
            metadata=abouts[file.name].metadata,
            expires=expiries.get(file.name),
        )
        for file in sorted(known, key=lambda file: (file.modified, file.name), reverse=True)
    )


def same(one: Artifact, other: Artifact) -> bool:
    """Tell whether two artifacts hold the same, verified the same way, wherever they are served."""
    return (one.revision, one.digest, one.metadata) == (
        other.revision,
        other.digest,
        other.metadata,
    )


def described(  # noqa: PLR0913  # the fields of an artifact
    packed: Packed,
    *,
    path: str,
    revision: str,
    url: str,
    stored: float,
    metadata: Mapping[str, str],
) -> Artifact:
    """Return the artifact for the status. ``stored`` is in seconds since the epoch."""
    return Artifact(
        digest=packed.digest,
        last_update_time=datetime.fromtimestamp(stored, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        path=path,
        revision=revision,
        url=url,
        size=packed.size,
        metadata=dict(metadata),
    )
