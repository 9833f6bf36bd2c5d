"""Build a Kustomization from local files, and with ``--recursive`` those that it applies.

Each Kustomization is a unit: the object, and its built objects. Its files are those of its source
on this machine: those of the first one are around ``--path``; ``--local-sources`` names those of
the others, which otherwise share the files of the first one.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from cli import errors, session
from cli.creating.flags import words
from cli.local import build as building
from cli.local import kustomization
from cli.local.workspace import Workspace
from controllers.kustomize import inputs
from crds.kustomize import Kustomization, SourceReference
from toolkit.kube.secrets import Secrets
from toolkit.objects import Json, ObjectKey, gvk_of, key_of

_MOST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to build: a name, local directories, and perhaps the Kustomization from a file.

    ``sources`` are directories by ``Kind/namespace/name``. ``ignored`` are patterns of files below
    the directory of each build that are left out.
    """

    name: str
    path: Path
    mounts: Mapping[str, Path]
    file: Path | None
    strict: bool
    recursive: bool = False
    sources: Mapping[str, Path] = field(default_factory=dict)
    ignored: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A Kustomization, as JSON with the live status and decoded, and its built objects."""

    raw: Json
    obj: Kustomization
    objects: tuple[Json, ...]


async def online(opened: session.Session, request: Request) -> list[Unit]:
    """Build with the Kustomizations, variables and permissions of the cluster.

    Raises:
        UsageError: a Kustomization or the directory of its source does not exist.
        PenstockError: a build fails, as it would in the cluster.
    """
    if request.file is None:
        first = await kustomization.live(opened, request.name)
    else:
        key = ObjectKey(opened.namespace, request.name)
        first = await _live(opened, kustomization.from_file(request.file, key))
    return await _Builder(request, opened.timeout, opened).all(first)


async def offline(request: Request, namespace: str, seconds: float) -> list[Unit]:
    """Build without a cluster: variables have the values that Kustomizations give them.

    Raises:
        UsageError, PenstockError: as ``online``.
    """
    if request.file is None:
        raise errors.UsageError("--dry-run asks no cluster and needs --kustomization-file")
    first = kustomization.from_file(request.file, ObjectKey(namespace, request.name))
    return await _Builder(request, seconds, None).all(first)


async def _live(opened: session.Session, raw: Json) -> Json:
    """Return a Kustomization with its status in the cluster, if it exists there."""
    key = key_of(raw)
    place = replace(opened, namespace=key.namespace)
    try:
        live = await kustomization.live(place, key.name)
    except errors.UsageError:
        return raw
    return {**raw, "status": live.get("status") or {}}


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A Kustomization to build; of those below the first one only if its source is known."""

    raw: Json
    first: bool = False


class _Builder:
    def __init__(self, request: Request, seconds: float, opened: session.Session | None) -> None:
        self._request = request
        self._seconds = seconds
        self._opened = opened
        self._sources = dict(request.sources)

    async def all(self, first: Json) -> list[Unit]:
        """Build the first one and, with ``recursive``, those below it, each once."""
        units: list[Unit] = []
        queue, seen = deque([_Waiting(raw=first, first=True)]), {key_of(first)}
        while queue:
            unit = await self._unit(queue.popleft())
            units.append(unit)
            if not self._request.recursive:
                break
            for raw in _nested(unit):
                if key_of(raw) not in seen:
                    seen.add(key_of(raw))
                    queue.append(_Waiting(raw=raw))
            if len(seen) > _MOST:
                raise errors.UsageError(f"--recursive builds at most {_MOST} Kustomizations")
        return units

    async def _unit(self, waiting: _Waiting) -> Unit:
        raw = waiting.raw
        if self._opened is not None and not waiting.first:
            raw = await _live(self._opened, raw)
        obj = kustomization.decode(raw)
        workspace = self._first(obj) if waiting.first else self._below(obj)
        mounts = self._mounts(obj) | (dict(self._request.mounts) if waiting.first else {})
        built = await building.build(
            obj,
            building.Inputs(
                workspace=workspace,
                mounts=mounts,
                variables=await self._variables(obj),
                strict=self._request.strict,
                seconds=self._seconds,
                ignored=self._request.ignored,
            ),
        )
        return Unit(raw=raw, obj=obj, objects=built)

    def _first(self, obj: Kustomization) -> Workspace:
        """Find the source around ``--path``; Kustomizations below may have the same source."""
        workspace = Workspace.find(self._request.path, spec_path=obj.spec.path)
        if obj.spec.source_ref is not None:
            self._sources.setdefault(_key(obj, obj.spec.source_ref), workspace.root)
        return workspace

    def _below(self, obj: Kustomization) -> Workspace:
        named = ObjectKey(obj.metadata.namespace, obj.metadata.name)
        if obj.spec.source_ref is None:
            raise errors.UsageError(
                f"Kustomization {named} has no spec.sourceRef: build it by itself, with --mount"
            )
        key = _key(obj, obj.spec.source_ref)
        if key not in self._sources:
            raise errors.UsageError(
                f"Kustomization {named} is built from {key}: name its directory with "
                f"--local-sources {key}=DIRECTORY"
            )
        return Workspace(root=self._sources[key], path=obj.spec.path)

    def _mounts(self, obj: Kustomization) -> dict[str, Path]:
        """Return the known directories of further sources."""
        named = {path: _key(obj, ref) for path, ref in obj.spec.mounts.items() if path}
        return {path: self._sources[key] for path, key in named.items() if key in self._sources}

    async def _variables(self, obj: Kustomization) -> Mapping[str, str] | None:
        if self._opened is None:
            return None
        # Keys are never read here: ciphertext stays masked.
        readable = structs.replace(obj, spec=structs.replace(obj.spec, decryption=None))
        return (await inputs.gather(readable, Secrets(self._opened.api))).variables


def sources(pairs: Iterable[str]) -> dict[str, Path]:
    """Parse ``--local-sources``.

    Raises:
        UsageError: a value is not ``KIND/NAMESPACE/NAME=DIRECTORY``.
    """
    found = {}
    for pair in words(pairs):
        key, _, directory = pair.partition("=")
        if not (directory and len(key.split("/")) == 3 and all(key.split("/"))):
            raise errors.UsageError(
                f"--local-sources must be KIND/NAMESPACE/NAME=DIRECTORY, and {pair!r} is not"
            )
        if not Path(directory).is_dir():
            raise errors.UsageError(f"--local-sources {key}: {directory} is not a directory")
        found[key] = Path(directory).resolve()
    return found


def _nested(unit: Unit) -> Iterable[Json]:
    """Yield the Kustomizations that a unit applies; the default namespace is the unit's."""
    for obj in unit.objects:
        if gvk_of(obj).group_kind == kustomization.GVK.group_kind:
            metadata = {"namespace": unit.obj.metadata.namespace, **obj["metadata"]}
            yield {**obj, "metadata": metadata}


def _key(obj: Kustomization, ref: SourceReference) -> str:
    return f"{ref.kind}/{ref.namespace or obj.metadata.namespace}/{ref.name}"
