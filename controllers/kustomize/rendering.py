"""From artifacts to the objects to apply: extract, decrypt, build, substitute, label.

Values in, values out: nothing here talks to a cluster. Files are decrypted only if the build reads
them: the first build reports which encrypted files it met, the second one sees their plaintext in
memory. Plaintext never touches the disk.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from controllers.kustomize import redaction
from controllers.kustomize.inputs import Inputs
from controllers.kustomize.redaction import Redaction
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from crds.kustomize_parts import CommonMetadata
from toolkit.apply import ownership
from toolkit.artifact.fetch import Extracted, Fetcher
from toolkit.decrypt import objects as encrypted_objects
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing
from toolkit.errors import TransientError
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json, ref_of
from toolkit.render import kustomize, substitute

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
"""The spec fields that are injected into the kustomization of the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects of a revision, ready to apply, and what no message about them may show."""

    objects: tuple[Json, ...] = field(repr=False)
    redaction: Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """The stages of a build and what they need."""

    pool: WorkerPool
    fetcher: Fetcher
    strict: bool

    async def render(
        self, obj: Kustomization, sources: Sources, inputs: Inputs, *, seconds: float
    ) -> Rendered:
        """Build the revision.

        Raises a typed error whose message names the file or object at fault, and no secret value.
        """
        async with AsyncExitStack() as stack:
            mounts: dict[str, Extracted] = {}
            for mount in sources.mounts:
                context = self.fetcher.extracted(mount.artifact)
                mounts[mount.path] = await stack.enter_async_context(context)
            built = await self._build(obj, mounts, inputs, seconds=seconds)
        clear = await asyncio.to_thread(_decrypt_objects, built.objects, inputs.keys)
        hidden = replace(built.redaction, values=inputs.secrets)
        clear = await self._substitute(obj, clear, inputs, hidden, seconds=seconds)
        owner = ownership.Owner(namespace=obj.metadata.namespace, name=obj.metadata.name)
        common = obj.spec.common_metadata or CommonMetadata()
        objects = tuple(
            ownership.own(item, owner, labels=common.labels, annotations=common.annotations)
            for item in clear
        )
        return Rendered(objects=objects, redaction=hidden)

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
                timeout=seconds,
            )
        except substitute.SubstitutionError as error:
            raise TransientError(hidden.text(str(error)), reason=error.reason) from None

    async def _build(
        self,
        obj: Kustomization,
        mounts: dict[str, Extracted],
        inputs: Inputs,
        *,
        seconds: float,
    ) -> Rendered:
        """Build once, and again with decrypted files if it read encrypted ones."""
        suspects = await _suspects(mounts) if inputs.keys is not None else frozenset()
        build = kustomize.Build(
            mounts={path: extracted.path for path, extracted in mounts.items()},
            path=obj.spec.path,
            transformations=_transformations(obj),
            suspects=suspects,
        )
        before: tuple[Json, ...] = ()
        try:
            rendered = await kustomize.build(self.pool, build, timeout=seconds)
        except kustomize.BuildError as error:
            # an encrypted patch or kustomization cannot be read as it is
            if not error.encrypted or inputs.keys is None:
                raise
            encrypted = error.encrypted
        else:
            before, encrypted = rendered.objects, rendered.encrypted
            if not encrypted or inputs.keys is None:
                return Rendered(objects=before, redaction=Redaction())
        files = await asyncio.to_thread(_decrypt_files, encrypted, mounts, inputs.keys)
        clear = replace(
            build, files={path: file.clear for path, file in files.items()}, suspects=frozenset()
        )
        try:
            objects = (await kustomize.build(self.pool, clear, timeout=seconds)).objects
        except kustomize.BuildError as error:
            secret = redaction.words(
                (file.clear for file in files.values()), (file.raw for file in files.values())
            )
            raise TransientError(redaction.hide(str(error), secret), reason=error.reason) from None
        return Rendered(objects=objects, redaction=Redaction(clear=objects, encrypted=before))


@dataclass(frozen=True, slots=True)
class _Decrypted:
    """A file as it stands in the source, and in clear."""

    raw: bytes
    clear: bytes = field(repr=False)


def _transformations(obj: Kustomization) -> Json:
    spec = msgspec.to_builtins(obj.spec)
    return {name: spec[name] for name in TRANSFORMATIONS if spec.get(name)}


async def _suspects(mounts: Mapping[str, Extracted]) -> frozenset[str]:
    """Return the paths in the build tree that hold ciphertext; each revision is scanned once."""
    found: set[str] = set()
    for mount, extracted in mounts.items():
        prefix = f"{mount}/" if mount else ""
        found.update(prefix + path for path in await extracted.encrypted())
    return frozenset(found)


def _decrypt_files(
    paths: Iterable[str], mounts: Mapping[str, Extracted], keys: KeyRing
) -> dict[str, _Decrypted]:
    return {path: _decrypt_file(path, _locate(path, mounts), keys) for path in paths}


def _decrypt_file(path: str, file: Path, keys: KeyRing) -> _Decrypted:
    raw = file.read_bytes()
    if not sops.is_encrypted(raw):  # it only speaks of ciphertext
        return _Decrypted(raw, raw)
    try:
        return _Decrypted(raw, sops.decrypt(raw, sops.format_of(path), keys))
    except DecryptionError as error:
        raise TransientError(f"cannot decrypt '{path}': {error}", reason="BuildFailed") from error


def _locate(path: str, mounts: Mapping[str, Extracted]) -> Path:
    """Return the file of a build-tree path: the longest mount that holds it wins."""
    holders = [mount for mount in mounts if not mount or path.startswith(f"{mount}/")]
    mount = max(holders, key=len)
    return mounts[mount].path / path[len(mount) :].lstrip("/")


def _decrypt_objects(objects: tuple[Json, ...], keys: KeyRing | None) -> tuple[Json, ...]:
    """Decrypt what is still ciphertext after the build; refuse what stays so."""
    clear = objects if keys is None else tuple(_decrypt_object(obj, keys) for obj in objects)
    for obj in clear:
        field = encrypted_objects.find_ciphertext(obj)
        if field is not None:
            remedy = "configure spec.decryption" if keys is None else "encrypt it as a whole file"
            raise TransientError(
                f"{ref_of(obj)} is SOPS encrypted at {field}; {remedy} to apply it",
                reason="BuildFailed",
            )
    return clear


def _decrypt_object(obj: Json, keys: KeyRing) -> Json:
    try:
        return encrypted_objects.decrypt_object(obj, keys)
    except DecryptionError as error:
        raise TransientError(
            f"cannot decrypt {ref_of(obj)}: {error}", reason="BuildFailed"
        ) from error
