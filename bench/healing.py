"""Changes by hand, and how soon they are undone."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from bench import load
from bench.collection import Collection
from bench.measure import Meter, Phase
from cli import errors
from toolkit.kube import client
from toolkit.objects import Json, dig

HEAL_WITHIN: Final = 5.0
QUIET_BEFORE: Final = 3.0


async def measured(
    meter: Meter, api: client.Client, config_maps: Collection, namespace: str, names: Sequence[str]
) -> Phase:
    """Change ConfigMaps by hand, one after another, and see how soon each is put right."""
    latencies: list[float] = []
    await asyncio.sleep(QUIET_BEFORE)
    async with meter.phase("drift heal", len(names)) as phase:
        for name in names:
            healing = asyncio.create_task(_healed(config_maps, name))
            await asyncio.sleep(0)
            await _edit(api, name, namespace)
            try:
                latencies.append(await healing)
            except errors.DeadlineError:
                phase.note = f"only {len(latencies)} healed within {HEAL_WITHIN:g}s"
                break
    phase.latencies = tuple(latencies)
    return phase


def message(obj: Json | None) -> str:
    """Return what a ConfigMap holds."""
    return str(dig(obj or {}, "data", load.DATA_KEY, default=""))


async def _edit(api: client.Client, name: str, namespace: str) -> None:
    body: Json = {"data": {load.DATA_KEY: "changed by hand"}}
    await api.patch(
        load.CONFIG_MAP, name, namespace, body, strategy="merge", manager="kubectl-edit"
    )


async def _healed(config_maps: Collection, name: str) -> float:
    """Return the seconds between the event that shows the edit and the one that shows it undone."""
    before = message(config_maps.objects[name])
    edited: float | None = None

    def again(obj: Json | None) -> bool:
        nonlocal edited
        if message(obj) != before:
            edited = edited or time.perf_counter()
            return False
        return edited is not None

    reached = await config_maps.all(
        [name], again, seconds=HEAL_WITHIN, what="the object was not healed"
    )
    return reached[name] - (edited or reached[name])
