"""The artifacts that a GitRepository includes, and how their files are added.

An included artifact is read from the store, not over HTTP, and only if it has its digest. Users
write the paths, and the trees are untrusted: nothing is read or written outside of them.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

from controllers.source.source import SourceObject, offered
from crds.meta import Artifact
from crds.source import GitRepository, GitRepositoryInclude
from toolkit.artifact import archive, beneath
from toolkit.artifact.store import Store
from toolkit.errors import StalledError, TransientError, WaitingError
from toolkit.objects import ObjectKey
from toolkit.policy import cycles

REASON: Final = "IncludeUnavailable"
NOT_FOUND: Final = "NotFound"
NO_ARTIFACT: Final = "NoArtifact"
COPY_FAILURE: Final = "CopyFailure"

KIND = "GitRepository"

Lookup = Callable[[str, ObjectKey], SourceObject | None]
"""Returns a source from its informer, by kind and key."""


def parents(obj: GitRepository) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the included sources."""
    for name in _names(obj):
        yield KIND, name


async def find(obj: GitRepository, lookup: Lookup, store: Store) -> tuple[Artifact, ...]:
    """Return the artifacts of ``spec.include``, in its order.

    Raises:
        WaitingError: an included GitRepository does not exist, or has no artifact.
        TransientError: the GitRepository includes itself, directly or through others.
    """
    _refuse_circle(obj, lookup)
    found = []
    for include in obj.spec.include:
        name = include.repository.name
        key = ObjectKey(obj.metadata.namespace, name)
        other = lookup(KIND, key)
        if other is None:
            raise WaitingError(
                f"could not get resource for include '{name}': GitRepository '{key}' not found",
                reason=NOT_FOUND,
            )
        artifact = offered(other, KIND)
        if artifact is None or not await store.intact(artifact):
            raise WaitingError(f"no artifact available for include '{name}'", reason=NO_ARTIFACT)
        found.append(artifact)
    return tuple(found)


async def copy(store: Store, artifact: Artifact, include: GitRepositoryInclude, tree: Path) -> None:
    """Copy ``fromPath`` of an artifact to ``toPath`` of the tree.

    Raises:
        StalledError: a path points outside its root.
        TransientError: ``fromPath`` is not a directory, or there is a file at ``toPath``.
    """
    try:
        async with store.local(artifact) as packed:
            await asyncio.to_thread(_copy, packed, include, tree)
    except TransientError as error:
        if error.reason == COPY_FAILURE:
            raise
        raise _uncopied(include, str(error)) from error


def _copy(packed: Path, include: GitRepositoryInclude, tree: Path) -> None:
    destination = _inside(tree, include.target, field="toPath")
    staging = tree.parent / f"{tree.name}.include"
    try:
        archive.unpack(packed, staging)
        origin = _inside(staging, include.from_path or ".", field="fromPath")
        if not origin.is_dir():
            raise _uncopied(include, f"it has no directory '{include.from_path}' (fromPath)")
        _merge(staging, origin, tree, destination)
    except OSError as exc:
        cause = exc.strerror or "a file already exists there"
        raise _uncopied(include, cause) from exc
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _merge(staging: Path, origin: Path, tree: Path, destination: Path) -> None:
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
                _make(tree, (*end, *below))
                pending.append(below)
            else:
                _copy_file(staging, (*start, *below), tree, (*end, *below))


def _make(tree: Path, parts: tuple[str, ...]) -> None:
    with contextlib.suppress(FileExistsError):  # If it is a file, writing into it fails.
        beneath.made(tree, parts)


def _copy_file(
    staging: Path, origin: tuple[str, ...], tree: Path, destination: tuple[str, ...]
) -> None:
    with open(beneath.opened(staging, origin), "rb") as file:  # noqa: PTH123  # a descriptor
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
