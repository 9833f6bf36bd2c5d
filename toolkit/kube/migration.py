"""Stored version migration: write every object of a kind once more, in the newest version.

``status.storedVersions`` of a CRD lists the versions in which objects may be stored in etcd, for
instance those of an installation that was taken over. A listed version cannot be removed from the
CRD, and every read of such an object is converted. So if the list has a version other than the
newest, all objects are written unchanged, which stores them in the newest version. Then the list is
reduced to the newest version.

Run it in one replica at a time. It can be interrupted and started again: the API server does
nothing for an object that is already stored in the newest version. If a write is refused, for
example by an admission webhook, the object is reported by name and tried again later; the list
stays until then.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from crds.kind import Kind
from toolkit import telemetry
from toolkit.kube import rbac
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ConflictError, NoMatchError, NotFoundError
from toolkit.kube.stored import DEFINITION, Item, Stored, storage
from toolkit.objects import GroupVersionKind, Json, dig

logger = logging.getLogger(__name__)

RATE: Final = 20.0
"""Objects per second: a thousand objects take less than a minute, and nothing waits for them."""

_SHOWN_EACH: Final = 100
_FIRST_PAUSE: Final = 5.0
_MAX_PAUSE: Final = 600.0
_NAMED: Final = 5


@dataclass(slots=True)
class Progress:
    """The result of one run over the objects of a kind."""

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
        if not readable(definition, kind):
            logger.info("migration waits for conversion", extra={"definition": kind.crd_name})
            return False
        store = Stored(
            client=self._client, gvk=GroupVersionKind(*kind.gvk), definition=kind.crd_name
        )
        progress = Progress()
        async for item in store.items():
            await self._write(kind, store, item, progress)
            await asyncio.sleep(1 / self._rate)
        _tell(kind, progress, done=not progress.refused)
        return not progress.refused and await store.cut()

    async def _write(self, kind: Kind[Struct], store: Stored, item: Item, done: Progress) -> None:
        """Write the object unchanged; on a conflict another client has already written it."""
        try:
            await store.write(item)
        except (ConflictError, NotFoundError):
            pass
        except ApiError as exc:
            if exc.status in {0, 429} or exc.status >= 500:
                raise
            done.refused.append(f"{item.key}: {exc}")
        done.written += 1
        telemetry.MIGRATED.labels(kind.kind).inc()
        if done.written % _SHOWN_EACH == 0:
            _tell(kind, done, done=False)


def permissions(kinds: Sequence[Kind[Struct]]) -> tuple[rbac.Rule, ...]:
    """Return the cluster permissions that migrating these kinds needs."""
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
    if storage(definition) != kind.version:
        return ()
    return others(definition)


def others(definition: Json) -> tuple[str, ...]:
    """Return the versions besides the one that is written that objects may be stored in."""
    stored = dig(definition, "status", "storedVersions", default=[])
    return tuple(version for version in stored if version != storage(definition))


def readable(definition: Json, kind: Kind[Struct]) -> bool:
    """Tell whether objects in those versions are converted as they should be."""
    rewritten = {old.version for old in kind.older if not old.relabelled}
    armed = dig(definition, "spec", "conversion", "strategy") == "Webhook"
    involved = {storage(definition), *others(definition)}
    return armed or len(involved) == 1 or not involved & rewritten


def _tell(kind: Kind[Struct], progress: Progress, *, done: bool) -> None:
    refused = len(progress.refused)
    extra = {"definition": kind.crd_name, "objects": progress.written, "refused": refused}
    if refused:
        logger.warning(
            "stored objects not migrated", extra=extra | {"first": progress.refused[:_NAMED]}
        )
    else:
        logger.info("stored objects migrated" if done else "migrating objects", extra=extra)
