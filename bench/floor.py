"""The floor: the objects of a phase applied and deleted straight, with no controller's part.

It is what the API server takes by itself, so a phase's ratio to it tells what remains to be gained.
As many connections write as create the load, and it ends as the phases do: when the objects are as
they should be, and when everything is gone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench import load, work
from bench.collection import Collection, Predicate
from bench.measure import Meter, Phase
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json, dig

Objects = Callable[[str], Sequence[Json]]
"""Returns the objects of one name, in the order of writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What applying and deleting the objects took."""

    applied: Phase
    deleted: Phase


def _available(obj: Json | None) -> bool:
    return bool(dig(obj or {}, "status", "availableReplicas"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The kind that is watched, and what its objects satisfy in the end."""

    gvk: GroupVersionKind
    satisfied: Predicate


AVAILABLE: Final = Done(gvk=load.DEPLOYMENT, satisfied=_available)


async def measured(  # noqa: PLR0913 - what is measured, and with what
    api: client.Client,
    meter: Meter,
    names: Sequence[str],
    objects: Objects,
    *,
    namespace: str,
    done: Done = AVAILABLE,
) -> Floor:
    """Apply the objects of all names in a namespace of their own, then delete them."""
    await work.set_up(api, namespace)
    try:
        async with Collection.watch(api, done.gvk, namespace) as watched:
            applied = await _applied(api, meter, names, objects, (watched, done.satisfied))
            deleted = await _deleted(api, meter, names, objects, watched)
    finally:
        await work.clean_up(api, namespace=namespace)
    return Floor(applied=applied, deleted=deleted)


async def _applied(
    api: client.Client,
    meter: Meter,
    names: Sequence[str],
    objects: Objects,
    done: tuple[Collection, Predicate],
) -> Phase:
    async def write(name: str) -> None:
        for each in objects(name):
            await api.apply(each, manager="bench")

    async with meter.phase("floor: apply", len(names)) as phase:
        began = time.perf_counter()
        await work.parallel(names, write)
        phase.note = f"applied after {time.perf_counter() - began:.1f}s"
        watched, satisfied = done
        reached = await watched.all(names, satisfied, seconds=_WITHIN, what="not applied")
        work.timed(phase, began, reached)
    return phase


async def _deleted(
    api: client.Client,
    meter: Meter,
    names: Sequence[str],
    objects: Objects,
    watched: Collection,
) -> Phase:
    async def delete(name: str) -> None:
        for each in objects(name):
            metadata = each["metadata"]
            gvk = GroupVersionKind.parse(each["apiVersion"], each["kind"])
            await api.delete(gvk, metadata["name"], metadata["namespace"])

    async with meter.phase("floor: delete", len(names)) as phase:
        began = time.perf_counter()
        await work.parallel(names, delete)
        answered = time.perf_counter()
        reached = await watched.all(names, work.gone, seconds=_WITHIN, what="objects not gone")
        work.timed(phase, began, reached)
        phase.wall = max(phase.wall, answered - began)
    return phase


_WITHIN: Final = 900.0
