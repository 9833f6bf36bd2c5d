"""The floor: the objects of a phase applied and deleted straight, with no controller's part.

It is what the API server takes by itself, so a phase's ratio to it tells what remains to be gained.
As many connections write as create the load, and it ends as the phases do: when the Deployments are
available, and when everything is gone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench import load, work
from bench.collection import Collection
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


async def measured(
    api: client.Client, meter: Meter, names: Sequence[str], objects: Objects, *, namespace: str
) -> Floor:
    """Apply the objects of all names in a namespace of their own, then delete them."""
    await work.set_up(api, namespace)
    try:
        async with (
            Collection.watch(api, load.DEPLOYMENT, namespace) as deployments,
            Collection.watch(api, load.CONFIG_MAP, namespace) as config_maps,
        ):
            applied = await _applied(api, meter, names, objects, deployments)
            watched = (deployments, config_maps)
            deleted = await _deleted(api, meter, names, objects, watched)
    finally:
        await work.clean_up(api, namespace=namespace)
    return Floor(applied=applied, deleted=deleted)


async def _applied(
    api: client.Client,
    meter: Meter,
    names: Sequence[str],
    objects: Objects,
    deployments: Collection,
) -> Phase:
    async def write(name: str) -> None:
        for each in objects(name):
            await api.apply(each, manager="bench")

    async with meter.phase("floor: apply", len(names)) as phase:
        began = time.perf_counter()
        await work.parallel(names, write)
        phase.note = f"applied after {time.perf_counter() - began:.1f}s"
        reached = await deployments.all(
            names, _available, seconds=_WITHIN, what="Deployments not available"
        )
        work.timed(phase, began, reached)
    return phase


async def _deleted(
    api: client.Client,
    meter: Meter,
    names: Sequence[str],
    objects: Objects,
    watched: Sequence[Collection],
) -> Phase:
    async def delete(name: str) -> None:
        for each in objects(name):
            metadata = each["metadata"]
            gvk = GroupVersionKind.parse(each["apiVersion"], each["kind"])
            await api.delete(gvk, metadata["name"], metadata["namespace"])

    async with meter.phase("floor: delete", len(names)) as phase:
        began = time.perf_counter()
        await work.parallel(names, delete)
        reached: dict[str, float] = {}
        for each in watched:
            gone = await each.all(names, work.gone, seconds=_WITHIN, what="objects not gone")
            reached |= {name: max(reached.get(name, 0), moment) for name, moment in gone.items()}
        work.timed(phase, began, reached)
    return phase


def _available(obj: Json | None) -> bool:
    return bool(dig(obj or {}, "status", "availableReplicas"))


_WITHIN: Final = 900.0
