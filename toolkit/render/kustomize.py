"""Builds of manifests by the engine's kustomize, as Flux does them.

A directory with a kustomization is built with it; of one without, everything below it belongs to
the build. Several sources are one tree, decrypted files are laid over it in memory, and nothing
outside of it can be read. No path in here is relative to the working directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from toolkit.errors import TransientError
from toolkit.native import calls
from toolkit.native.pool import WorkerMemoryError, WorkerPool, WorkerTimeoutError
from toolkit.objects import Json
from toolkit.render import readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The input of a build.

    - ``mounts`` are the directories of extracted artifacts, by their path in the build tree; "" is
      the root. ``path`` is the directory to build.
    - ``transformations`` are fields of a Kustomization's spec in their JSON form.
    - ``files`` replace files of the tree. They, and ``suspects``, which contain SOPS ciphertext,
      are named by their path from its root.
    - ``questions`` are those of an earlier build of the same mounts that determined ``files``. The
      footprint then covers both builds.
    """

    mounts: Mapping[str, Path]
    path: str
    transformations: Json
    files: Mapping[str, bytes] = field(default_factory=dict)
    suspects: frozenset[str] = frozenset()
    questions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The dependencies of a build on its mounts: its queries, and a digest of the answers.

    Other mounts with an equal footprint give the same build. ``questions`` are the queries in the
    form of the engine, joined by NUL; they are empty if the engine cannot repeat them.
    """

    questions: str
    digest: str

    def __bool__(self) -> bool:
        return bool(self.questions)


UNKNOWN: Final = Footprint(questions="", digest="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects in the order of the build, those suspects that it read, and its footprint.

    If there are suspects, some objects may hold ciphertext: lay the decrypted files over the tree
    and build again.
    """

    objects: tuple[Json, ...]
    encrypted: frozenset[str]
    footprint: Footprint


class BuildError(TransientError):
    """The manifests cannot be built; ``encrypted`` are the suspects read until then.

    Ciphertext may be the reason, where a patch or a kustomization is encrypted.
    """

    default_reason = "BuildFailed"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        encrypted: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(message, reason=reason)
        self.encrypted = encrypted


class PathNotFoundError(BuildError):
    """The directory to build is not in the source."""

    default_reason = "ArtifactFailed"


async def build(
    pool: WorkerPool,
    build: Build,
    *,
    flow: str,
    timeout: float,  # noqa: ASYNC109  # it starts with the work
) -> Rendered:
    """Build in a worker of ``calls.start``; ``flow`` is that of ``WorkerPool.call``.

    ``timeout`` is in seconds.

    Raises:
        PathNotFoundError: there is no such directory.
        BuildError: the build failed, was refused, took too long or too much memory.

    """
    request = {
        "mounts": _points(build.mounts),
        "path": build.path,
        "transformations": build.transformations,
        "files": dict(build.files),
        "suspects": sorted(build.suspects),
        "questions": build.questions,
    }
    try:
        answer = await calls.call(pool, "kustomize.build", request, flow=flow, timeout=timeout)
    except calls.EngineError as exc:
        raise _translate(exc) from exc
    except WorkerTimeoutError as exc:
        raise BuildError(
            f"{_of(build)} did not end within {timeout:g}s: split it, or raise spec.timeout"
        ) from exc
    except WorkerMemoryError as exc:
        raise BuildError(
            f"{_of(build)} needed more memory than allowed ({exc.limit >> 20} MiB): split it"
        ) from exc
    return Rendered(
        objects=tuple(answer["objects"]),
        encrypted=frozenset(answer["encrypted"]),
        footprint=Footprint(**answer["footprint"]),
    )


async def footprint(
    pool: WorkerPool,
    mounts: Mapping[str, Path],
    since: Footprint,
    *,
    flow: str,
    timeout: float,  # noqa: ASYNC109  # it starts with the work
) -> Footprint:
    """Return the footprint of ``mounts`` for the queries of ``since``; ``timeout`` is in seconds.

    Raises:
        TransientError: the engine cannot answer the queries.
    """
    request = {"mounts": _points(mounts), "questions": since.questions}
    answer = await calls.call(pool, "kustomize.footprint", request, flow=flow, timeout=timeout)
    return Footprint(**answer)


def _points(mounts: Mapping[str, Path]) -> dict[str, str]:
    return {_point(place): str(path) for place, path in mounts.items()}


def _point(place: str) -> str:
    point = str(PurePosixPath(place))
    return "" if point == "." else point


def _of(build: Build) -> str:
    return f"the build of '{build.path or '.'}'"


def _translate(error: calls.EngineError) -> BuildError:
    detail = error.detail if isinstance(error.detail, dict) else {}
    encrypted = frozenset(detail.get("encrypted") or ())
    if error.code == "PathNotFound":
        return PathNotFoundError(readable.told(str(error)))
    return BuildError(readable.told(str(error)), encrypted=encrypted)
