"""Write the objects of a cluster again, so that all are stored in the version of the definition.

The controllers of an installation do the same (``toolkit.kube.migration``), slowly and in the
background. Here a user waits for it, whether Flux or Penstock reconciles the objects. Each pass may
be repeated. An object that cannot be written is named, and its old version stays listed.
"""

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from cli import errors, progress, session
from crds import KINDS
from crds.kind import Kind
from toolkit.kube import migration
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ConflictError, NotFoundError
from toolkit.kube.stored import DEFINITION, Item, Stored, storage
from toolkit.objects import GroupVersionKind, Json

_PASSES: Final = 5
"""How often objects are read again that changed between our read and our write."""
_NAMED: Final = 5
_PAGE: Final = "docs/api-versions.md"


@dataclass(slots=True)
class Done:
    """The result for a kind; ``again`` are objects that changed meanwhile."""

    written: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)


async def migrate(opened: session.Session, *, dry_run: bool) -> None:
    """Migrate all kinds that have several versions.

    Raises:
        FailedError: some objects cannot be written, or must not be before they are converted.
        ApiError: a definition or a kind cannot be read.
    """
    progress.action("looking at the definitions")
    kinds = [kind for kind in KINDS if kind.older]
    found = [(kind, await _definition(opened.api, kind)) for kind in kinds]
    present = [(kind, definition) for kind, definition in found if definition is not None]
    if not present:
        raise errors.UsageError(
            "the cluster has no definitions of Flux's kinds: `penstock install` brings them"
        )
    failures = [
        failure
        for kind, definition in present
        for failure in await _kind(opened.api, kind, definition, dry_run=dry_run)
    ]
    if failures:
        raise errors.FailedError(
            f"{len(failures)} objects or kinds were not migrated: correct what is named above, "
            "and run the command again"
        )
    done = "nothing was changed (--dry-run)" if dry_run else "custom resources migrated"
    progress.success(done)


async def _definition(api: Client, kind: Kind[Struct]) -> Json | None:
    try:
        return await api.get(DEFINITION, kind.crd_name)
    except NotFoundError:
        return None


async def _kind(api: Client, kind: Kind[Struct], definition: Json, *, dry_run: bool) -> list[str]:
    """Migrate one kind; return the failures, as they were printed."""
    others = migration.others(definition)
    if not migration.readable(definition, kind):
        failure = (
            f"{kind.crd_name}: objects in {', '.join(others)} are converted by the webhooks, which "
            f"the API server does not ask: start them, see {_PAGE}#who-converts"
        )
        return _told([failure])
    version = storage(definition)
    gvk = GroupVersionKind(kind.group, version, kind.kind)
    store = Stored(client=api, gvk=gvk, definition=kind.crd_name, dry_run=dry_run)
    done = await written(store, every=bool(others))
    failures = [f"{kind.kind} {key}: {why}" for key, why in sorted(done.refused.items())]
    if others and not failures and not await _cut(store):
        failures = [f"{kind.crd_name}: its storage version changes all the time"]
    if done.written or others:
        word = "would be stored" if dry_run else "are stored"
        was = f", also in {', '.join(others)}" if others and failures else ""
        progress.success(f"{kind.crd_name}: {len(done.written)} objects {word} in {version}{was}")
    return _told(failures)


async def _cut(store: Stored) -> bool:
    """Reduce the list of versions; another client may write the CRD at the same time."""
    for _ in range(_PASSES):
        if await store.cut():
            return True
    return False


async def written(store: Stored, *, every: bool) -> Done:
    """Write all objects of a kind, or those alone whose managedFields are in an old version.

    Raises:
        ApiError: they cannot be listed, or the API server takes no writes at all.
    """
    done = Done()
    for _ in range(_PASSES):
        done.again.clear()
        async for item in store.items():
            key = str(item.key)
            if item.owners or (every and key not in done.written):
                await _one(store, item, key, done)
        if not done.again:
            break
    done.refused |= dict.fromkeys(done.again - done.refused.keys(), "it changes all the time")
    return done


async def _one(store: Stored, item: Item, key: str, done: Done) -> None:
    if key in done.refused or (store.dry_run and key in done.written):
        return
    try:
        await store.write(item)
        done.written.add(key)
    except ConflictError:
        done.again.add(key)
    except NotFoundError:
        pass
    except ApiError as exc:
        if not exc.status or exc.status in _OF_THE_KIND or exc.status >= 500:
            raise
        done.refused[key] = str(exc)


_OF_THE_KIND: Final = frozenset({401, 429})


def _told(failures: list[str]) -> list[str]:
    for each in failures[:_NAMED]:
        progress.failure(each)
    if len(failures) > _NAMED:
        progress.failure(f"and {len(failures) - _NAMED} more")
    return failures
