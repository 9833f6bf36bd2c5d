"""Stored version migration: every object of a kind is written once more, in the newest version.

A CRD remembers in ``status.storedVersions`` in which versions objects may still lie in etcd, for
instance those of an installation that was taken over; while one is listed it cannot be removed,
and every read of such an object is converted. So while another one than the newest is listed, all
objects are written unchanged, which stores them anew, and then the list is cut down to the newest.

Run it in one replica at a time. It can end anywhere and begin again: what is stored in the newest
version already is left as it is by the API server. Whatever a write is refused for (an admission
webhook may do so) is told by name, and tried again later; the list is not cut before.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from crds.kind import Kind
from toolkit import telemetry
from toolkit.kube import rbac
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ConflictError, NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig, key_of

logger = logging.getLogger(__name__)

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
MANAGER: Final = "penstock-migration"
RATE: Final = 20.0
"""Objects per second: a thousand take less than a minute, and nobody waits for them."""

_PAGE: Final = 200
_SHOWN_EACH: Final = 100
_FIRST_PAUSE: Final = 5.0
_MAX_PAUSE: Final = 600.0
_NAMED: Final = 5
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(slots=True)
class Progress:
    """What one pass over the objects of a kind has done."""

    written: int = 0
    refused: list[str] = field(default_factory=list)


class Migration:
    """Migrates those of the kinds that have older versions, and is done when all are."""

    def __init__(
        self, client: Client, kinds: Sequence[Kind[Struct]], *, rate: float = RATE
    ) -> None:
        self._client = client
        self._kinds = [kind for kind in kinds if kind.older]
        self._rate = rate

    async def run(self) -> None:
        """Migrate; what cannot be done yet is tried again, with growing pauses."""
        left, pause = self._kinds, _FIRST_PAUSE
        while left:
            left = [kind for kind in left if not await self._migrated(kind)]
            if left:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    async def _migrated(self, kind: Kind[Struct]) -> bool:
        """Migrate one kind; tell whether nothing is left to do."""
        try:
            return await self.migrate(kind)
        except (NotFoundError, NoMatchError):
            return True  # not installed here
        except ApiError as exc:
            extra = {"definition": kind.crd_name, "error": str(exc)}
            logger.error("stored objects not migrated", extra=extra)  # noqa: TRY400 - one line
            return False

    async def migrate(self, kind: Kind[Struct]) -> bool:
        """Make one pass; tell whether all objects are stored in the newest version now.

        Raises:
            ApiError: the definition or the objects cannot be read.
        """
        definition = await self._client.get(DEFINITION, kind.crd_name)
        if not outdated(definition, kind):
            return True
        if not _readable(definition, kind):
            logger.info("migration waits for conversion", extra={"definition": kind.crd_name})
            return False
        progress = Progress()
        async for key, version in self._objects(kind):
            await self._write(kind, key, version, progress)
            await asyncio.sleep(1 / self._rate)
        _tell(kind, progress, done=not progress.refused)
        return not progress.refused and await self._cut(kind)

    async def _objects(self, kind: Kind[Struct]) -> AsyncIterator[tuple[ObjectKey, Json]]:
        """Yield name and identity of every object, page by page."""
        resource = await self._client.mapper.resource(GroupVersionKind(*kind.gvk))
        following = ""
        while True:
            page = await self._client.request(
                "GET",
                resource.path(),
                query={"limit": str(_PAGE), "continue": following},
                headers={"Accept": _METADATA},
            )
            for item in page.get("items") or ():
                metadata = item["metadata"]
                known = {name: metadata[name] for name in ("uid", "resourceVersion")}
                yield key_of(item), known
            following = str(dig(page, "metadata", "continue", default=""))
            if not following:
                return

    async def _write(
        self, kind: Kind[Struct], key: ObjectKey, known: Json, progress: Progress
    ) -> None:
        """Write the object as it is; anyone who changed it meanwhile has done that for us."""
        gvk = GroupVersionKind(*kind.gvk)
        body: Json = {"metadata": known}
        try:
            await self._client.patch(
                gvk, key.name, key.namespace, body, strategy="merge", manager=MANAGER
            )
        except (ConflictError, NotFoundError):
            pass
        except ApiError as exc:
            if exc.status in {0, 429} or exc.status >= 500:
                raise
            progress.refused.append(f"{key}: {exc}")
        progress.written += 1
        telemetry.MIGRATED.labels(kind.kind).inc()
        if progress.written % _SHOWN_EACH == 0:
            _tell(kind, progress, done=False)

    async def _cut(self, kind: Kind[Struct]) -> bool:
        """Say that all is stored in the newest version, unless the definition changed meanwhile."""
        definition = await self._client.get(DEFINITION, kind.crd_name)
        body: Json = {
            "metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]},
            "status": {"storedVersions": [kind.version]},
        }
        if _storage(definition) != kind.version:
            return False
        try:
            await self._client.patch(
                DEFINITION,
                kind.crd_name,
                "",
                body,
                strategy="merge",
                subresource="status",
                manager=MANAGER,
            )
        except ConflictError:
            return False
        return True


def permissions(kinds: Sequence[Kind[Struct]]) -> tuple[rbac.Rule, ...]:
    """Return what migrating these kinds needs on the whole cluster."""
    several = [kind for kind in kinds if kind.older]
    names = tuple(sorted(kind.crd_name for kind in several))
    groups = sorted({kind.group for kind in several})
    return (
        *(
            rbac.Rule(
                groups=(group,),
                resources=tuple(sorted(kind.plural for kind in several if kind.group == group)),
                verbs=("list", "patch"),
            )
            for group in groups
        ),
        rbac.Rule(
            groups=(DEFINITION.group,),
            resources=("customresourcedefinitions",),
            verbs=("get",),
            names=names,
        ),
        rbac.Rule(
            groups=(DEFINITION.group,),
            resources=("customresourcedefinitions/status",),
            verbs=("patch",),
            names=names,
        ),
    )


def outdated(definition: Json, kind: Kind[Struct]) -> tuple[str, ...]:
    """Return the versions besides the newest that objects may be stored in.

    None while the newest is not the one that is written: an older installation is still there.
    """
    if _storage(definition) != kind.version:
        return ()
    stored = dig(definition, "status", "storedVersions", default=[])
    return tuple(version for version in stored if version != kind.version)


def _storage(definition: Json) -> str:
    versions = dig(definition, "spec", "versions", default=[])
    return next((str(each["name"]) for each in versions if each.get("storage")), "")


def _readable(definition: Json, kind: Kind[Struct]) -> bool:
    """Tell whether objects in those versions are converted as they should be."""
    relabelled = {old.version for old in kind.older if old.relabelled}
    armed = dig(definition, "spec", "conversion", "strategy") == "Webhook"
    return armed or relabelled.issuperset(outdated(definition, kind))


def _tell(kind: Kind[Struct], progress: Progress, *, done: bool) -> None:
    refused = len(progress.refused)
    extra = {"definition": kind.crd_name, "objects": progress.written, "refused": refused}
    if refused:
        logger.warning(
            "stored objects not migrated", extra=extra | {"first": progress.refused[:_NAMED]}
        )
    else:
        logger.info("stored objects migrated" if done else "migrating objects", extra=extra)
