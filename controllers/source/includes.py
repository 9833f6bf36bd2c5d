"""The artifacts that a GitRepository includes, and how their files are added.

An included artifact is read from the store, not over HTTP, and only if it has its digest. Users
write the paths, and the trees are untrusted: nothing is read or written outside of them.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

from controllers.source.source import SourceObject, offered
from crds.meta import Artifact
from crds.source import GitRepository, GitRepositoryInclude
from toolkit.artifact import archive, beneath, limits, threads
from toolkit.artifact.limits import Limits
from toolkit.artifact.store import Store
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.objects import ObjectKey
from toolkit.policy import counts, cycles

REASON: Final = "IncludeUnavailable"
NOT_FOUND: Final = "NotFound"
NO_ARTIFACT: Final = "NoArtifact"
COPY_FAILURE: Final = "CopyFailure"

KIND = "GitRepository"

Lookup = Callable[[str, ObjectKey], SourceObject | None]
"""Returns a source from its informer, by kind and key."""


def parents(obj: GitRepository) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the included sources, up to the permitted number."""
    for name in _names(obj)[: counts.INCLUDES]:
        yield KIND, name


async def find(obj: GitRepository, lookup: Lookup, store: Store) -> tuple[Artifact, ...]:
    """Return the artifacts of ``spec.include``, in its order.

    Raises:
        WaitingError: an included GitRepository does not exist, or has no artifact.
        TransientError: the GitRepository includes itself, directly or through others.
        StalledError: there are too many includes.
    """
    counts.require_few("spec.include", obj.spec.include, counts.INCLUDES)
    _refuse_circle(obj, lookup)
    found = []
    for include in obj.spec.include:
        name = include.repository.name
        key = ObjectKey(obj.metadata.namespace, name)
        other = lookup(KIND, key)
        if other is None:
            raise WaitingError(
                f"could not get resource for include '{name}': GitRepository '{key}' not found: "
                "create it, or correct spec.include",
                reason=NOT_FOUND,
            )
        artifact = offered(other, KIND)
        if artifact is None or not await store.intact(artifact):
            raise WaitingError(f"no artifact available for include '{name}'", reason=NO_ARTIFACT)
        found.append(artifact)
    return tuple(found)


class Room:
    """What all includes of a tree may take together; an artifact of the tree has the same bounds.

    An artifact of a mebibyte may unpack to a gibibyte, and be included into many directories.
    """

    def __init__(self, bounds: Limits = limits.DEFAULT) -> None:
        self._bounds = bounds
        self._entries = 0
        self._bytes = 0

    def take(self, size: int = 0) -> None:
        """Count a file of so many bytes, or a directory.

        Raises:
            TooLargeError: it is too much.
        """
        self._entries += 1
        self._bytes += size
        if self._entries > self._bounds.entries or self._bytes > self._bounds.total_bytes:
            raise TooLargeError(
                f"all includes together have more than {self._bounds.entries} files or "
                f"{self._bounds.total_bytes >> 20} MiB: include fewer, or a part by fromPath"
            )


class TooLargeError(Exception):
    """The includes of a tree take too much room."""


async def copy(
    store: Store, artifact: Artifact, include: GitRepositoryInclude, tree: Path, room: Room
) -> None:
    """Copy ``fromPath`` of an artifact to ``toPath`` of the tree.

    Raises:
        StalledError: a path points outside its root.
        TransientError: ``fromPath`` is not a directory, there is a file at ``toPath``, or the
            ``room`` is not sufficient.
    """
    try:
        async with store.local(artifact) as packed:
            await threads.run(lambda checkpoint: _copy(packed, include, tree, room, checkpoint))
    except TransientError as error:
        if error.reason == COPY_FAILURE:
            raise
        raise _uncopied(include, str(error)) from error


def _copy(
    packed: Path, include: GitRepositoryInclude, tree: Path, room: Room, checkpoint: Checkpoint
) -> None:
    destination = _inside(tree, include.target, field="toPath")
    staging = tree.parent / f"{tree.name}.include"
    try:
        archive.unpack(packed, staging, checkpoint=checkpoint)
        origin = _inside(staging, include.from_path or ".", field="fromPath")
        if not origin.is_dir():
            raise _uncopied(include, f"it has no directory '{include.from_path}' (fromPath)")
        _merge(staging, origin, tree, destination, room=_checked(room, checkpoint))
    except TooLargeError as exc:
        raise _uncopied(include, str(exc)) from exc
    except OSError as exc:
        cause = exc.strerror or "a file already exists there"
        raise _uncopied(include, cause) from exc
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _checked(room: Room, checkpoint: Checkpoint) -> Callable[[int], None]:
    def take(size: int) -> None:
        checkpoint()
        room.take(size)

    return take


def _merge(
    staging: Path, origin: Path, tree: Path, destination: Path, *, room: Callable[[int], None]
) -> None:
    """Copy a directory into another one without following links.

    The worker that filled the tree is untrusted, so links must not lead out of the tree.
    """
    start, end = (
        path.relative_to(_root(root)).parts
        for path, root in ((origin, staging), (destination, tree))
    )
    for depth in range(1, len(end) + 1):
        _make(tree, end[:depth])
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        for name, is_directory in beneath.listed(staging, (*start, *parts)):
            below = (*parts, name)
            if is_directory:
                room(0)
                _make(tree, (*end, *below))
                pending.append(below)
            else:
                _copy_file(staging, (*start, *below), tree, (*end, *below), room=room)


def _make(tree: Path, parts: tuple[str, ...]) -> None:
    with contextlib.suppress(FileExistsError):  # If it is a file, writing into it fails.
        beneath.made(tree, parts)


def _copy_file(
    staging: Path,
    origin: tuple[str, ...],
    tree: Path,
    destination: tuple[str, ...],
    *,
    room: Callable[[int], None],
) -> None:
    with open(beneath.opened(staging, origin), "rb") as file:  # noqa: PTH123  # a descriptor
        room(os.fstat(file.fileno()).st_size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(beneath.opened(tree, destination, flags), "wb") as out:  # noqa: PTH123  # as above
            shutil.copyfileobj(file, out)
            os.fchmod(out.fileno(), os.fstat(file.fileno()).st_mode & 0o777)


def _refuse_circle(obj: GitRepository, lookup: Lookup) -> None:
    """Refuse a GitRepository that includes itself: each artifact would cause a new one, forever."""
    start = obj.metadata.name

    def included(name: str) -> list[str]:
        if name == start:
            return _names(obj)
        other = lookup(KIND, ObjectKey(obj.metadata.namespace, name))
        return _names(cast("GitRepository", other)) if other is not None else []

    if way := cycles.cycle(start, included):
        raise _unavailable(f"'{start}' includes itself: {', '.join(way)}")


def _names(obj: GitRepository) -> list[str]:
    return [include.repository.name for include in obj.spec.include]


def _inside(root: Path, relative: str, *, field: str) -> Path:
    """Return the path of ``relative`` below ``root``; refuse links that lead out of ``root``."""
    path = (_root(root) / relative).resolve()
    if not path.is_relative_to(_root(root)):
        raise StalledError(
            f"spec.include: {field} '{relative}' points outside the repository", reason=REASON
        )
    return path


def _root(tree: Path) -> Path:
    # Resolve only the parent: if the tree itself is a link, its target counts as outside.
    return tree.parent.resolve() / tree.name


def _uncopied(include: GitRepositoryInclude, why: str) -> TransientError:
    name, origin = include.repository.name, include.from_path
    return TransientError(
        f"failed to copy '{name}' include from {origin} to {include.target}: {why}",
        reason=COPY_FAILURE,
    )


def _unavailable(message: str) -> TransientError:
    return TransientError(f"spec.include: {message}", reason=REASON)
