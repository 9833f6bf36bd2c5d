"""Delete objects that are no longer in the build, and those that a deleted owner leaves.

Objects are deleted in the reverse order of writing, by background propagation. An object is deleted
only if its live labels still name the owner and it does not forbid its deletion, and only that very
object (uid). An object that a watch shows is deleted at the version in which it was judged: if it
has changed since, the server refuses, and it is read and judged again. So the watches save the
read, and no object is deleted because of an old state. An object that is protected or kept, whose
deletion failed, or that finalizers hold stays in the inventory. An object that another owner has
taken does not.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from toolkit.apply import bounded, masking, order, ownership, retention, scope
from toolkit.apply.changes import Change, Failure
from toolkit.apply.check import Find, unseen
from toolkit.apply.ownership import Owner
from toolkit.apply.projection import Live
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, dig

Fate = Literal["deleted", "terminating", "gone", "protected", "kept", "released"]
Stays = Callable[[Json], bool]
Policy = Literal["MirrorPrune", "Delete", "WaitForTermination", "Orphan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The result for each object.

    - ``deleted`` existed and are now being deleted; ``terminating`` were being deleted before.
    - ``gone`` did not exist.
    - ``protected`` have a mark that forbids their deletion.
    - ``kept`` are namespaces that the owner keeps, and definitions whose objects it keeps.
    - ``released`` belong to another owner.
    - ``failed`` were refused by the server.
    - ``held`` are those of ``deleted`` and ``terminating`` that still exist, with their finalizers.
    """

    deleted: tuple[ObjectRef, ...] = ()
    terminating: tuple[ObjectRef, ...] = ()
    gone: tuple[ObjectRef, ...] = ()
    protected: tuple[ObjectRef, ...] = ()
    kept: tuple[ObjectRef, ...] = ()
    released: tuple[ObjectRef, ...] = ()
    failed: tuple[tuple[ObjectRef, Failure], ...] = ()
    held: tuple[tuple[ObjectRef, tuple[str, ...]], ...] = ()

    @property
    def survivors(self) -> tuple[ObjectRef, ...]:
        """Return the objects that stay in the inventory."""
        held = (ref for ref, _ in self.held)
        return (*self.protected, *self.kept, *(ref for ref, _ in self.failed), *held)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return ``Deployment/ns/name deleted`` for every object that was."""
        return tuple(str(Change(ref=ref, action="deleted")) for ref in self.deleted)

    @property
    def message(self) -> str:
        """Return the failures, one a line."""
        return "\n".join(str(failure) for _, failure in self.failed)


async def prune(  # noqa: PLR0913 - the options of a deletion
    api: client.Client,
    refs: Iterable[ObjectRef],
    *,
    owner: Owner,
    find: Find = unseen,
    stays: Stays | None = None,
    concurrency: int = 8,
) -> Pruned:
    """Delete these objects of ``owner``; a failure does not stop the deletion of others.

    ``find`` returns an object from the watches; other objects are read from the server. Objects
    for which ``stays`` is true are protected; with it, all objects are read.

    Raises:
        ApiError: the server cannot be reached.
    """
    fates: dict[ObjectRef, Fate | errors.ApiError] = {}
    held: dict[ObjectRef, tuple[str, ...]] = {}

    async def one(ref: ObjectRef) -> Fate:
        fate, left = await _delete(api, ref, owner, None if stays else find(ref), stays)
        if dig(left, "metadata", "deletionTimestamp"):
            held[ref] = _finalizers(left)
        return fate

    for together in order.deletion_ranks(refs):
        results = await bounded.each(together, one, limit=concurrency)
        bounded.raise_general(results)
        fates.update(zip(together, results, strict=True))
    return Pruned(
        deleted=_with(fates, "deleted"),
        terminating=_with(fates, "terminating"),
        gone=_with(fates, "gone"),
        protected=_with(fates, "protected"),
        kept=_with(fates, "kept"),
        released=_with(fates, "released"),
        failed=tuple(
            (ref, masking.failure(_named(ref), fate, step="delete"))
            for ref, fate in fates.items()
            if isinstance(fate, errors.ApiError)
        ),
        held=tuple(sorted(held.items())),
    )


async def remaining(
    api: client.Client, refs: Iterable[ObjectRef], *, concurrency: int = 8
) -> tuple[ObjectRef, ...]:
    """Return which of the objects still exist, for ``WaitForTermination``.

    Raises:
        ApiError: one of them cannot be read.
    """
    wanted = tuple(refs)

    async def there(ref: ObjectRef) -> bool:
        try:
            shown = await scope.served(api, ref)
            return shown is not None and bool(await api.get(shown.gvk, ref.name, ref.namespace))
        except errors.NotFoundError:
            return False

    results = await bounded.each(wanted, there, limit=concurrency)
    for result in results:
        if isinstance(result, errors.ApiError):
            raise result
    return tuple(ref for ref, found in zip(wanted, results, strict=True) if found)


def deletes(policy: str, *, prunes: bool) -> bool:
    """Tell whether an owner that is deleted takes its objects with it (``deletionPolicy``)."""
    return policy in ("Delete", "WaitForTermination") or (policy in ("", "MirrorPrune") and prunes)


async def _delete(
    api: client.Client, ref: ObjectRef, owner: Owner, seen: Live | None, stays: Stays | None
) -> tuple[Fate, Json]:
    """Return the result for one object, and the object if it still exists."""
    try:
        shown = await scope.served(api, ref)
        if shown is None:
            # The objects of a kind that is no longer served were deleted with it.
            return "gone", {}
        retained = owner.retains(ref) or owner.keeps.guards(ref)
        untouchable = seen is None or seen.kept or seen.leaving or retained
        if seen is not None and seen.owner == owner.key and not untouchable:
            with contextlib.suppress(errors.ConflictError):  # it has changed since: read it
                uid, version = seen.uid, seen.resource_version
                left = await api.delete(
                    shown.gvk, ref.name, ref.namespace, uid=uid, version=version
                )
                return "deleted", left
        return await _judge(api, shown, owner, stays)
    except errors.NotFoundError:
        return "gone", {}


async def _judge(
    api: client.Client, ref: ObjectRef, owner: Owner, stays: Stays | None
) -> tuple[Fate, Json]:
    """Read an object, and delete it if it is the owner's and does not forbid that."""
    live = await api.get(ref.gvk, ref.name, ref.namespace)
    if not owner.owns(live):
        return "released", {}
    if not ownership.prunable(live, owner) or (stays and stays(live)):
        return "protected", {}
    if owner.retains(ref):
        return "kept", {}
    if dig(live, "metadata", "deletionTimestamp"):
        return "terminating", live
    if owner.keeps.guards(ref) and await retention.in_use(api, ref.name):
        return "kept", {}
    uid = str(dig(live, "metadata", "uid", default=""))
    return "deleted", await api.delete(ref.gvk, ref.name, ref.namespace, uid=uid)


def _finalizers(obj: Json) -> tuple[str, ...]:
    """Return the finalizers; a Namespace has them in its spec."""
    places = ("metadata", "spec") if obj.get("kind") == "Namespace" else ("metadata",)
    return tuple(str(name) for at in places for name in dig(obj, at, "finalizers", default=()))


def _with(fates: dict[ObjectRef, Fate | errors.ApiError], fate: Fate) -> tuple[ObjectRef, ...]:
    return tuple(ref for ref, found in fates.items() if found == fate)


def _named(ref: ObjectRef) -> dict[str, object]:
    return {
        "apiVersion": ref.gvk.api_version,
        "kind": ref.gvk.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
    }
