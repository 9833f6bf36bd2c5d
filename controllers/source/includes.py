"""What a GitRepository includes: which artifacts of its neighbours, and how their files get in.

An included artifact is read from the store, not over HTTP, and only while it has its digest. Paths
are the user's and trees are strangers': nothing is read or written outside of them.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from crds.meta import Artifact
from crds.source import GitRepository, GitRepositoryInclude
from toolkit.artifact import archive
from toolkit.artifact.storage import Storage
from toolkit.errors import StalledError, TransientError
from toolkit.objects import ObjectKey

REASON = "IncludeUnavailable"

Lookup = Callable[[ObjectKey], GitRepository | None]
"""Returns a GitRepository as the informer last saw it."""


async def find(obj: GitRepository, lookup: Lookup, storage: Storage) -> tuple[Artifact, ...]:
    """Return the artifacts of ``spec.include``, in its order.

    Raises:
        TransientError: one does not exist, is damaged, or includes this one in turn.
    """
    _refuse_circle(obj, lookup)
    found = []
    for include in obj.spec.include:
        key = ObjectKey(obj.metadata.namespace, include.repository.name)
        other = lookup(key)
        artifact = other.status.artifact if other else None
        if artifact is None or not await storage.intact(artifact):
            raise _unavailable(f"GitRepository '{key}' has no artifact yet")
        found.append(artifact)
    return tuple(found)


def same(one: Artifact, other: Artifact) -> bool:
    """Tell whether two artifacts hold the same, verified the same way, wherever they are served."""
    return (one.revision, one.digest, one.metadata) == (
        other.revision,
        other.digest,
        other.metadata,
    )


def copy(storage: Storage, artifact: Artifact, include: GitRepositoryInclude, tree: Path) -> None:
    """Copy ``fromPath`` of an artifact to ``toPath`` of the tree; blocks.

    Raises:
        StalledError: a path leads out of its root.
        TransientError: ``fromPath`` is no directory, or ``toPath`` is taken by a file.
    """
    destination = _inside(tree, include.target, field="toPath")
    staging = tree.parent / f"{tree.name}.include"
    try:
        archive.unpack(storage.path(artifact), staging)
        origin = _inside(staging, include.from_path or ".", field="fromPath")
        if not origin.is_dir():
            raise _unavailable(
                f"fromPath '{include.from_path}' is not a directory of "
                f"GitRepository '{include.repository.name}'"
            )
        shutil.copytree(origin, destination, dirs_exist_ok=True)
    except OSError as exc:
        cause = exc.strerror or "a file is in the way"
        raise _unavailable(f"cannot copy to '{include.target}': {cause}") from exc
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _refuse_circle(obj: GitRepository, lookup: Lookup) -> None:
    """Raise if the object includes itself: every new artifact would ask for the next one."""
    start = obj.metadata.name
    seen = set()
    waiting: list[tuple[str, ...]] = [(start, name) for name in _names(obj)]
    while waiting:
        *path, name = chain = waiting.pop()
        if name == start:
            raise _unavailable(f"'{start}' includes itself: {', '.join(chain)}")
        other = None if name in seen else lookup(ObjectKey(obj.metadata.namespace, name))
        seen.add(name)
        if other is not None:
            waiting += [(*path, name, inner) for inner in _names(other)]


def _names(obj: GitRepository) -> list[str]:
    return [include.repository.name for include in obj.spec.include]


def _inside(root: Path, relative: str, *, field: str) -> Path:
    """Return ``relative`` below ``root``, following links only inside it."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise StalledError(
            f"spec.include: {field} '{relative}' leads out of the repository", reason=REASON
        )
    return path


def _unavailable(message: str) -> TransientError:
    return TransientError(f"spec.include: {message}", reason=REASON)
