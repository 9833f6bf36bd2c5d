"""Render artifacts to the objects to apply: extract, decrypt, build, substitute, label.

Nothing here sends requests to a cluster. A file is decrypted only if the build reads it: the first
build reports the encrypted files that it has read. The second build gets their plaintext from
memory, or the carriers of Secrets that are decrypted at admission (``carriers``). Plaintext is
never written to disk.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from controllers.applying import redaction
from controllers.applying.redaction import Redaction
from controllers.kustomize import carriers
from controllers.kustomize.decryption import Keys
from controllers.kustomize.inputs import Inputs
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from crds.kustomize_parts import CommonMetadata
from toolkit.apply import ownership
from toolkit.artifact.fetch import Extracted, Fetcher
from toolkit.decrypt import objects as encrypted_objects
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing
from toolkit.errors import StalledError, TransientError
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json, ObjectRef, ref_of
from toolkit.render import kustomize, substitute
from toolkit.render.kustomize import Footprint

TRANSFORMATIONS: Final = (
    "targetNamespace",
    "namePrefix",
    "nameSuffix",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "images",
    "components",
    "ignoreMissingComponents",
    "buildMetadata",
)
"""The fields of the spec that are added to the kustomization file at ``spec.path``."""

MOST_BYTES: Final = 2 << 30
"""Limit of all unpacked artifacts of a build: an artifact of 1 MiB may unpack to 1 GiB."""

_Files = Mapping[str, bytes]
_NO_FILES: Final[_Files] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects of a revision, ready to apply, and the secret values that messages must not show.

    ``footprint`` identifies the files of the sources that the objects depend on. It is empty if
    that is unknown.
    """

    objects: tuple[Json, ...] = field(repr=False)
    redaction: Redaction
    footprint: Footprint = kustomize.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """The stages of a build, with the workers and caches that they use."""

    pool: WorkerPool
    fetcher: Fetcher
    strict: bool

    async def render(
        self, obj: Kustomization, sources: Sources, inputs: Inputs, *, seconds: float
    ) -> Rendered:
        """Build the objects of the sources; ``seconds`` limits each build.

        Raises:
            PenstockError: the build failed. The message names the file or object with the error,
                and shows no secret value.
        """
        async with self._extracted(sources) as mounts:
            built = await self._build(obj, mounts, inputs, seconds=seconds)
        clear = await _decrypt_objects(built.objects, inputs)
        hidden = replace(built.redaction, values=inputs.secrets)
        clear = await self._substitute(obj, clear, inputs, hidden, seconds=seconds)
        owner = ownership.Owner(namespace=obj.metadata.namespace, name=obj.metadata.name)
        common = obj.spec.common_metadata or CommonMetadata()
        objects = tuple(
            ownership.own(item, owner, labels=common.labels, annotations=common.annotations)
            for item in clear
        )
        return Rendered(objects=objects, redaction=hidden, footprint=built.footprint)

    async def unchanged(
        self, sources: Sources, since: Footprint, *, flow: str, seconds: float
    ) -> bool:
        """Tell whether a build of ``sources`` would read the same content as in ``since``.

        False also means that the engine failed to determine it; then the build reports the error.
        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            PenstockError: an artifact cannot be fetched.
        """
        async with self._extracted(sources) as mounts:
            paths = {path: extracted.path for path, extracted in mounts.items()}
            try:
                now = await kustomize.footprint(self.pool, paths, since, flow=flow, timeout=seconds)
            except TransientError:
                return False
        return now == since

    @asynccontextmanager
    async def _extracted(self, sources: Sources) -> AsyncIterator[dict[str, Extracted]]:
        """Give the unpacked artifacts by their directory in the build tree.

        Raises:
            PenstockError: one cannot be fetched, or they are too large together.
        """
        size = 0
        async with AsyncExitStack() as stack:
            mounts: dict[str, Extracted] = {}
            for mount in sources.mounts:
                context = self.fetcher.extracted(mount.artifact, mount.owner)
                mounts[mount.path] = await stack.enter_async_context(context)
                size += mounts[mount.path].size
                if size > MOST_BYTES:
                    raise StalledError(
                        f"the artifacts of spec.sourceRefs take more than {MOST_BYTES >> 30} GiB "
                        "together: use fewer, or have their sources ignore files",
                        reason="BuildFailed",
                    )
            yield mounts

    async def _substitute(
        self,
        obj: Kustomization,
        objects: tuple[Json, ...],
        inputs: Inputs,
        hidden: Redaction,
        *,
        seconds: float,
    ) -> tuple[Json, ...]:
        post_build = obj.spec.post_build
        if post_build is None:
            return objects
        try:
            return await substitute.substitute(
                self.pool,
                objects,
                inputs.variables,
                strict=self.strict,
                always=post_build.substitute_strategy == "Always",
                flow=obj.metadata.namespace,
                timeout=seconds,
            )
        except substitute.SubstitutionError as error:
            told = await hidden.masked(str(error))
            raise TransientError(told, reason=error.reason) from None

    async def _build(
        self,
        obj: Kustomization,
        mounts: dict[str, Extracted],
        inputs: Inputs,
        *,
        seconds: float,
    ) -> Rendered:
        """Build, and build again with decrypted files if the first build read encrypted ones."""
        suspects = await _suspects(mounts) if inputs.keys is not None else frozenset()
        build = kustomize.Build(
            mounts={path: extracted.path for path, extracted in mounts.items()},
            path=obj.spec.path,
            transformations=_transformations(obj),
            suspects=suspects,
        )
        before: tuple[Json, ...] = ()
        footprint = kustomize.UNKNOWN
        try:
            rendered = await kustomize.build(
                self.pool, build, flow=obj.metadata.namespace, timeout=seconds
            )
        except kustomize.BuildError as error:
            # The build cannot parse an encrypted patch or kustomization file.
            if not error.encrypted or inputs.keys is None:
                raise
            encrypted = error.encrypted
        else:
            before, encrypted = rendered.objects, rendered.encrypted
            footprint = rendered.footprint
            if not encrypted or inputs.keys is None:
                return Rendered(objects=before, redaction=Redaction(), footprint=footprint)
        work = _Work(
            flow=obj.metadata.namespace,
            build=replace(build, suspects=frozenset(), questions=footprint.questions),
            files=await asyncio.to_thread(_read_files, encrypted, mounts),
            before=before,
            known=bool(footprint),
            seconds=seconds,
        )
        if inputs.admission:
            if built := await self._build_encrypted(obj, work, inputs):
                return built
            work = replace(work, known=False)  # These builds have read files too.
        return await self._build_clear(work, inputs.keys, paths=encrypted)

    async def _build_encrypted(
        self, obj: Kustomization, work: "_Work", inputs: Inputs
    ) -> Rendered | None:
        """Build with as many encrypted files as possible; None if all must be decrypted."""
        assert inputs.keys is not None  # noqa: S101 - the caller has checked
        substitutes = obj.spec.post_build is not None
        carried = await asyncio.to_thread(carriers.carry, work.encrypted, substitutes=substitutes)
        clear: frozenset[str] = frozenset()
        while True:
            laid = carried.keys() | clear
            raw = {p: file for p, file in work.encrypted.items() if p not in laid}
            try:
                built = await self._build_clear(work, inputs.keys, paths=clear, carried=carried)
            except TransientError:
                # A patch or a generator may need plaintext. If not, the build with decrypted files
                # fails too and reports the error.
                needed = frozenset(raw)
            else:
                found = await asyncio.to_thread(carriers.sort, built.objects, raw, carried)
                if found is None:
                    return None
                if not found.left:
                    return replace(built, objects=found.objects)
                needed = found.left
            if clear or not needed or needed == work.encrypted.keys():
                return None
            clear = needed
            work = replace(work, known=False)

    async def _build_clear(
        self, work: "_Work", keys: Keys, *, paths: Collection[str], carried: _Files = _NO_FILES
    ) -> Rendered:
        """Build with the files at ``paths`` decrypted."""
        works = [functools.partial(_decrypt_file, path, work.files[path]) for path in paths]
        files = dict(zip(paths, await keys.each(works), strict=True))
        laid = {**carried, **{path: file.clear for path, file in files.items()}}
        build = replace(work.build, files=laid)
        try:
            built = await kustomize.build(self.pool, build, flow=work.flow, timeout=work.seconds)
        except kustomize.BuildError as error:
            told = await asyncio.to_thread(_masked, str(error), tuple(files.values()))
            raise TransientError(told, reason=error.reason) from None
        return Rendered(
            objects=built.objects,
            redaction=Redaction(clear=built.objects, encrypted=work.before),
            footprint=built.footprint if work.known else kustomize.UNKNOWN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A build that read encrypted files; ``before`` are its objects, empty if the build failed.

    ``build`` has the questions of that build's footprint. ``known`` tells that no other build has
    read files since, so the footprint is complete.
    """

    flow: str
    build: kustomize.Build
    files: Mapping[str, bytes]
    before: tuple[Json, ...]
    known: bool
    seconds: float

    @property
    def encrypted(self) -> dict[str, bytes]:
        """Return the files that are SOPS documents; others only contain text like ciphertext."""
        return {path: file for path, file in self.files.items() if sops.is_encrypted(file)}


@dataclass(frozen=True, slots=True)
class _Decrypted:
    """A file as it is in the source, and its plaintext."""

    raw: bytes
    clear: bytes = field(repr=False)


def _transformations(obj: Kustomization) -> Json:
    spec = msgspec.to_builtins(obj.spec)
    return {name: spec[name] for name in TRANSFORMATIONS if spec.get(name)}


async def _suspects(mounts: Mapping[str, Extracted]) -> frozenset[str]:
    """Return the paths of files with ciphertext; each revision is scanned only once."""
    found: set[str] = set()
    for mount, extracted in mounts.items():
        prefix = f"{mount}/" if mount else ""
        found.update(prefix + path for path in await extracted.encrypted())
    return frozenset(found)


def _read_files(paths: Iterable[str], mounts: Mapping[str, Extracted]) -> dict[str, bytes]:
    return {path: _locate(path, mounts).read_bytes() for path in paths}


def _masked(message: str, files: Sequence[_Decrypted]) -> str:
    """Return a message about a build of these files without what only their plaintext has."""
    secret = redaction.words((file.clear for file in files), (file.raw for file in files))
    return redaction.hide(message, secret)


def _decrypt_file(path: str, raw: bytes, keys: KeyRing) -> _Decrypted:
    if not sops.is_encrypted(raw):  # The file only contains text like ciphertext.
        return _Decrypted(raw, raw)
    try:
        return _Decrypted(raw, sops.decrypt(raw, sops.format_of(path), keys))
    except DecryptionError as error:
        raise TransientError(f"cannot decrypt '{path}': {error}", reason="BuildFailed") from error


def _locate(path: str, mounts: Mapping[str, Extracted]) -> Path:
    """Return the file of a path in the build tree, from the longest mount that contains it."""
    holders = [mount for mount in mounts if not mount or path.startswith(f"{mount}/")]
    mount = max(holders, key=len)
    return mounts[mount].path / path[len(mount) :].lstrip("/")


async def _decrypt_objects(objects: tuple[Json, ...], inputs: Inputs) -> tuple[Json, ...]:
    """Decrypt Secrets that are still encrypted after the build; refuse other ciphertext.

    Carriers, which are decrypted at admission, stay unchanged.
    """
    here = [obj for obj in objects if not (inputs.admission and carriers.opted(obj))]
    if inputs.keys is not None:
        encrypted = await asyncio.to_thread(_with_documents, here)
        works = [functools.partial(_decrypt_object, here[index]) for index in encrypted]
        for index, clear in zip(encrypted, await inputs.keys.each(works), strict=True):
            here[index] = clear
    await asyncio.to_thread(_require_clear, here, configured=inputs.keys is not None)
    left = iter(here)
    return tuple(obj if inputs.admission and carriers.opted(obj) else next(left) for obj in objects)


def _with_documents(objects: Sequence[Json]) -> list[int]:
    """Return the indexes of the objects that are Secrets with documents to decrypt."""
    return [
        index
        for index, obj in enumerate(objects)
        if obj.get("kind") == "Secret"
        and not encrypted_objects.opted_out(obj)
        and any(True for _ in encrypted_objects.documents(obj))
    ]


def _require_clear(objects: Sequence[Json], *, configured: bool) -> None:
    for obj in objects:
        field = encrypted_objects.find_ciphertext(obj)
        if field is not None:
            raise _encrypted(ref_of(obj), field, configured=configured)


def _encrypted(ref: ObjectRef, field: str, *, configured: bool) -> TransientError:
    """Return the error for ciphertext in an object.

    Without ``spec.decryption``, wording and reason are those of Flux.
    """
    if configured:
        return TransientError(
            f"{ref} is SOPS encrypted at {field}; encrypt it as a whole file to apply it",
            reason="BuildFailed",
        )
    return TransientError(
        f"{ref} is SOPS encrypted, configuring decryption is required for this secret to be "
        f"reconciled: set spec.decryption (encrypted is {field})",
        reason="ReconciliationFailed",
    )


def _decrypt_object(obj: Json, keys: KeyRing) -> Json:
    try:
        return encrypted_objects.decrypt_object(obj, keys)
    except DecryptionError as error:
        raise TransientError(
            f"cannot decrypt {ref_of(obj)}: {error}", reason="BuildFailed"
        ) from error
