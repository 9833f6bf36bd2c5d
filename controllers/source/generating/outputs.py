"""The ExternalArtifacts of a generator: stored, written, and deleted when no longer generated.

An object belongs to the generator whose uid is in its label, or that its ``sourceRef`` names (a
restored cluster has new uids). Other objects are never touched. The object is created before its
artifact is stored, so every stored artifact has an object.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from controllers.source.generating.inputs import KIND, ORIGIN, Input, maker_of
from controllers.source.generating.wire import BuiltArtifact
from crds import EXTERNAL_ARTIFACT
from crds.extensions import ArtifactGenerator, GeneratedArtifact
from crds.meta import Artifact, ObjectMeta
from crds.source_external import ExternalArtifact
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.quota import QuotaError
from toolkit.artifact.store import Owner, Store
from toolkit.errors import AccessDeniedError
from toolkit.kube.client import Client
from toolkit.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey

EXTERNAL: Final = GroupVersionKind(*EXTERNAL_ARTIFACT.gvk)
MANAGER: Final = "source-watcher"
GENERATOR: Final = "source.extensions.fluxcd.io/generator"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

T = TypeVar("T")

_AT_ONCE: Final = 8
_EVERYTHING: Final = Ignore.from_rules("!*")
"""The spec selects the files of an artifact, so the ignore rules of sources do not apply."""


class Outputs:
    """Writes and deletes ExternalArtifacts and their artifacts."""

    def __init__(self, client: Client, store: Store, informer: Informer[ExternalArtifact]) -> None:
        self._client = client
        self._store = store
        self._informer = informer

    async def write(
        self,
        obj: ArtifactGenerator,
        built: Sequence[BuiltArtifact],
        inputs: Mapping[str, Input],
        done: dict[str, GeneratedArtifact],
    ) -> tuple[str, ...]:
        """Store each artifact and write its object; return the names of changed artifacts.

        Each written artifact is added to ``done``, so that it is known after an error.

        Raises:
            AccessDeniedError: an object of that name has another owner; nothing was written.
            TransientError: the store or the API server refused a write.
        """
        held = {each.name: self._held(obj, each.name) for each in built}
        changed: list[str] = []

        async def one(each: BuiltArtifact) -> None:
            written = _Written(obj, each, inputs)
            artifact, news = await self._put(written, held[each.name])
            done[each.name] = written.entry(artifact)
            if news:
                changed.append(each.name)

        await _for_all(built, one)
        return tuple(sorted(changed))

    async def intact(self, obj: ArtifactGenerator) -> bool:
        """Tell whether all objects and artifacts in the inventory are unchanged."""
        for entry in obj.status.inventory:
            found = self._informer.get(ObjectKey(entry.namespace, entry.name))
            artifact = found.status.artifact if found else None
            if (
                found is None
                or artifact is None
                or not _bears(found.metadata, obj)
                or artifact.path != _owner(entry).file(entry.filename)
                or artifact.digest != entry.digest
                or artifact.url != self._store.url(artifact.path)
                or not await self._store.intact(artifact)
            ):
                return False
        return True

    async def delete(self, obj: ArtifactGenerator, names: Iterable[str]) -> None:
        """Delete those of the objects that belong to the generator, with their artifacts.

        Raises:
            ApiError: the API server refused a deletion.
        """

        async def one(name: str) -> None:
            found = self._informer.get(ObjectKey(obj.metadata.namespace, name))
            if found is not None and _is_own(found, obj):
                # The object was deleted, or replaced by another owner: nothing is left to do.
                with suppress(NotFoundError, ConflictError):
                    await self._client.delete(
                        EXTERNAL, name, obj.metadata.namespace, uid=found.metadata.uid
                    )

        await _for_all(names, one)

    def owned(self, obj: ArtifactGenerator) -> frozenset[str]:
        """Return the names of all objects with the uid of the generator in their label."""
        return frozenset(
            key.name
            for key, found in self._informer.items().items()
            if key.namespace == obj.metadata.namespace and _is_own(found, obj)
        )

    def _held(self, obj: ArtifactGenerator, name: str) -> ExternalArtifact | None:
        found = self._informer.get(ObjectKey(obj.metadata.namespace, name))
        if found is not None:
            _require_own(found, obj)
        return found

    async def _put(
        self, written: "_Written", held: ExternalArtifact | None
    ) -> tuple[Artifact, bool]:
        """Store the artifact and write its object; return it, and whether it has changed."""
        if held is None:
            held = await self._create(written)
        if not written.describes(held):
            applied = await self._client.apply(written.object(held), manager=MANAGER)
            held = msgspec.convert(applied.object, ExternalArtifact)
        artifact = await self._stored(written, held.status.artifact)
        if written.tells(held, artifact):
            return artifact, False
        await self._client.apply(
            written.status(held, artifact), manager=MANAGER, subresource="status"
        )
        await self._store.collect(written.owner, current=artifact)
        return artifact, True

    async def _create(self, written: "_Written") -> ExternalArtifact:
        """Create the object with only the mark of its owner; it may exist and belong to us."""
        body = written.object(None)
        try:
            reply = await self._client.create(body)
        except AlreadyExistsError:
            owner = written.owner
            reply = await self._client.get(EXTERNAL, owner.name, owner.namespace)
        found = msgspec.convert(reply, ExternalArtifact)
        _require_own(found, written.obj)
        return found

    async def _stored(self, written: "_Written", before: Artifact | None) -> Artifact:
        path = written.owner.file(written.filename)
        if before is not None and before.path == path and await self._store.intact(before):
            artifact = msgspec.structs.replace(
                before, url=self._store.url(path), metadata=written.metadata
            )
        else:
            try:
                artifact = await self._pack(written)
            except QuotaError:
                if before and written.owner.owns(before.path):
                    # Deleting expired artifacts makes room for the next attempt.
                    await self._store.collect(written.owner, current=before)
                raise
        return msgspec.structs.replace(artifact, revision=written.revision(artifact))

    async def _pack(self, written: "_Written") -> Artifact:
        return await self._store.store(
            written.owner,
            revision="",
            filename=written.filename,
            tree=Path(written.built.directory),
            ignore=_EVERYTHING,
            metadata=written.metadata,
        )


class _Written:
    """One artifact, with the desired metadata, spec and status of its object."""

    def __init__(
        self, obj: ArtifactGenerator, built: BuiltArtifact, inputs: Mapping[str, Input]
    ) -> None:
        self.obj = obj
        self.built = built
        self.owner = Owner(kind=EXTERNAL.kind, namespace=obj.metadata.namespace, name=built.name)
        self.filename = f"{built.digest}.tar.gz"
        origin = inputs[built.origin].origin if built.origin else ""
        self.metadata = {ORIGIN: origin} if origin else {}
        self._source = inputs[built.revision].artifact.revision if built.revision else ""
        common = obj.spec.common_metadata
        self._labels = {
            **(common.labels if common else {}),
            **built.labels,
            MANAGED_BY: MANAGER,
            GENERATOR: obj.metadata.uid,
        }
        self._annotations = dict(common.annotations) if common else {}

    def revision(self, artifact: Artifact) -> str:
        """Return the revision for users of the artifact."""
        return self._source or f"latest@{artifact.digest}"

    def entry(self, artifact: Artifact) -> GeneratedArtifact:
        """Return the entry of the inventory."""
        return GeneratedArtifact(
            name=self.owner.name,
            namespace=self.owner.namespace,
            digest=artifact.digest,
            filename=self.filename,
        )

    def describes(self, held: ExternalArtifact) -> bool:
        """Tell whether metadata and spec of the object are as desired."""
        meta = held.metadata
        return (
            self._labels.items() <= meta.labels.items()
            and self._annotations.items() <= meta.annotations.items()
            and held.spec.source_ref is not None
            and maker_of(held) == ObjectKey(self.owner.namespace, self.obj.metadata.name)
        )

    def object(self, held: ExternalArtifact | None) -> Json:
        """Return the object to create (``held`` is None; only the owner's mark), or to apply."""
        body: Json = {
            "apiVersion": EXTERNAL.api_version,
            "kind": EXTERNAL.kind,
            "metadata": {"name": self.owner.name, "namespace": self.owner.namespace},
        }
        if held is None:
            body["metadata"]["labels"] = {GENERATOR: self.obj.metadata.uid}
            return body
        body["metadata"] |= {"labels": self._labels, "uid": held.metadata.uid}
        if self._annotations:
            body["metadata"]["annotations"] = self._annotations
        body["spec"] = {
            "sourceRef": {
                "apiVersion": KIND.api_version,
                "kind": KIND.kind,
                "name": self.obj.metadata.name,
                "namespace": self.owner.namespace,
            }
        }
        return body

    def tells(self, held: ExternalArtifact, artifact: Artifact) -> bool:
        """Tell whether the status of the object is as desired."""
        ready = [each.status for each in held.status.conditions if each.type == "Ready"]
        return held.status.artifact == artifact and ready == ["True"]

    def status(self, held: ExternalArtifact, artifact: Artifact) -> Json:
        """Return the status to apply."""
        since = [
            each.last_transition_time
            for each in held.status.conditions
            if each.type == "Ready" and each.status == "True"
        ]
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "Artifact is ready",
            "lastTransitionTime": since[0] if since else now,
            "observedGeneration": held.metadata.generation,
        }
        return {
            "apiVersion": EXTERNAL.api_version,
            "kind": EXTERNAL.kind,
            "metadata": {
                "name": self.owner.name,
                "namespace": self.owner.namespace,
                "uid": held.metadata.uid,
            },
            "status": {"artifact": msgspec.to_builtins(artifact), "conditions": [ready]},
        }


async def _for_all(items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Call ``do`` for each item, a few at a time; the first error ends it."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(item: T) -> None:
        async with slots:
            await do(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


def _owner(entry: GeneratedArtifact) -> Owner:
    return Owner(kind=EXTERNAL.kind, namespace=entry.namespace, name=entry.name)


def _is_own(found: ExternalArtifact, obj: ArtifactGenerator) -> bool:
    mine = ObjectKey(obj.metadata.namespace, obj.metadata.name)
    return _bears(found.metadata, obj) or (
        GENERATOR in found.metadata.labels and maker_of(found) == mine
    )


def _bears(meta: ObjectMeta, obj: ArtifactGenerator) -> bool:
    return meta.labels.get(GENERATOR) == obj.metadata.uid


def _require_own(found: ExternalArtifact, obj: ArtifactGenerator) -> None:
    if _is_own(found, obj):
        return
    source = found.spec.source_ref
    whose = f"belongs to {source.kind} '{source.name}'" if source else "has another owner"
    raise AccessDeniedError(
        f"ExternalArtifact '{found.metadata.namespace}/{found.metadata.name}' {whose} and is not "
        "overwritten: give the artifact another name, or delete that object"
    )
