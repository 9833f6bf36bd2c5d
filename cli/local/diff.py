"""What applying a local build would change in the cluster, asked of the server by dry-run.

Nothing is written. Each object goes through the same examination as in the controller
(``toolkit.apply.check``), so skip marks and ``spec.ignore`` count here too. Encrypted Secrets are
sent as stand-ins (``cli.local.encrypted``).
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cli.local import comparison, encrypted
from controllers.kustomize.settings import Settings
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply import masking, order, ownership, scope
from toolkit.apply.changes import ApplyError, Failure
from toolkit.apply.check import Examiner
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, dig, gvk_of, key_of, ref_of

_PARALLEL: Final = 8

Fate = Literal["created", "drifted", "deleted", "recreated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What would happen to one object, and to which of its fields."""

    ref: ObjectRef
    fate: Fate
    differences: tuple[comparison.Difference, ...] = ()

    def __str__(self) -> str:
        lines = [f"► {self.ref} {self.fate}", *(f"  {line}" for line in self.differences)]
        return "\n".join(lines)


async def diff(
    api: client.Client, kustomization: Json, obj: Kustomization, objects: Sequence[Json]
) -> tuple[Finding, ...]:
    """Return what would change, in the order of the build, deletions last.

    ``kustomization`` is the live object, whose inventory tells what would be deleted.

    Raises:
        ApplyError: the server refuses objects; all of them are named.
    """
    scoped, failures = await scope.resolve(api, objects)
    if failures:
        raise ApplyError(failures)
    options = Settings(concurrent_ssa=_PARALLEL).apply_options(obj)
    examiner = Examiner(api=api, options=options)
    coming = _Coming.of(scoped)
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(item: Json) -> Finding | Failure | None:
        async with gate:
            return await _examine(api, examiner, item, coming)

    answers = await asyncio.gather(*(one(item) for item in scoped))
    refused = [answer for answer in answers if isinstance(answer, Failure)]
    if refused:
        raise ApplyError(refused)
    found = [answer for answer in answers if isinstance(answer, Finding)]
    return (*found, *await _deletions(api, kustomization, scoped))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coming:
    """What the build itself brings: without it yet, the server cannot judge what needs it."""

    namespaces: frozenset[str]
    kinds: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, objects: Iterable[Json]) -> "_Coming":
        objects = tuple(objects)
        names = (key_of(o).name for o in objects if gvk_of(o).group_kind == ("", "Namespace"))
        kinds = (order.defined_kind(o) for o in objects)
        return cls(namespaces=frozenset(names), kinds=frozenset(kind for kind in kinds if kind))

    def explains(self, obj: Json, error: errors.ApiError) -> bool:
        """Tell whether the object is refused only because something of the build is not there."""
        if isinstance(error, errors.NoMatchError):
            return gvk_of(obj).group_kind in self.kinds
        missing = isinstance(error, errors.NotFoundError)
        return missing and key_of(obj).namespace in self.namespaces


async def _examine(
    api: client.Client, examiner: Examiner, obj: Json, coming: _Coming
) -> Finding | Failure | None:
    ref = ref_of(obj)
    try:
        live = await _live(api, ref)
        checked = await examiner.check(encrypted.stand_in(obj, live))
    except errors.ApiError as exc:
        if coming.explains(obj, exc):
            return Finding(ref=ref, fate="created")
        return masking.failure(obj, exc)
    if checked.verdict == "skip":
        return None
    if live is None:
        return Finding(ref=ref, fate="created")
    if checked.verdict == "recreate":
        made = encrypted.admitted(checked.payload, obj, live)
        return Finding(ref=ref, fate="recreated", differences=comparison.compare(live, made))
    answer = encrypted.admitted(checked.answer or live, obj, live)
    differences = comparison.compare(live, answer)
    return Finding(ref=ref, fate="drifted", differences=differences) if differences else None


async def _deletions(
    api: client.Client, kustomization: Json, objects: Iterable[Json]
) -> list[Finding]:
    """Return what is in the inventory, no longer in the build, still there, and ours to delete."""
    if not dig(kustomization, "spec", "prune", default=False):
        return []
    entries = dig(kustomization, "status", "inventory", "entries", default=())
    gone = inventory.difference(inventory.decode(entries), [ref_of(obj) for obj in objects])
    key = key_of(kustomization)
    owner = ownership.Owner(namespace=key.namespace, name=key.name)
    found = []
    for ref in gone:
        try:
            live = await _live(api, ref)
        except errors.NoMatchError:
            continue
        if live is not None and owner.owns(live) and ownership.prunable(live, owner):
            found.append(Finding(ref=ref, fate="deleted"))
    return found


async def _live(api: client.Client, ref: ObjectRef) -> Json | None:
    try:
        return await api.get(ref.gvk, ref.name, ref.namespace)
    except errors.NotFoundError:
        return None
