"""What admission costs: requests at a steady pace, asked of nobody, of each plugin, of all.

Every request is a dry-run, so that only the way to a decision is measured and nothing is stored.
The configurations that Penstock has armed are deleted, which it leaves at that, and copies with one
webhook each take their place.
"""

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import load, work
from bench.measure import Meter, Phase
from bench.work import Plan
from toolkit.kube import client
from toolkit.objects import GroupVersionKind, Json

NAMESPACE: Final = "bench-admission"
PACE: Final = 200
"""Requests a second."""
CONFIGURATION: Final = "bench"
MUTATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)
VALIDATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
)
_WARM: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One webhook as Penstock has armed it."""

    gvk: GroupVersionKind
    webhook: Json

    @property
    def name(self) -> str:
        """Return the plugin's name."""
        return str(self.webhook["name"]).partition(".")[0]

    def concerns(self, resource: str) -> bool:
        """Tell whether the webhook's rules name a resource."""
        return any(resource in rule.get("resources", ()) for rule in self.webhook["rules"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share; ``count`` is how many requests a phase sends."""

    api: client.Client
    meter: Meter
    entries: Sequence[Entry]
    count: int


@asynccontextmanager
async def prepared(
    api: client.Client,
    plan: Plan,
    meter: Meter,
    root: Path,  # noqa: ARG001 - as every part is prepared
) -> AsyncIterator[Bench]:
    """Make the namespace, and take the armed configurations apart."""
    namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await api.apply(namespace, manager="bench")
    entries = []
    for gvk in (MUTATING, VALIDATING):
        for found in await api.list(gvk, label_selector="app.kubernetes.io/part-of=flux"):
            entries += [Entry(gvk=gvk, webhook=hook) for hook in found["webhooks"]]
            await api.delete(gvk, found["metadata"]["name"])
    try:
        yield Bench(api=api, meter=meter, entries=entries, count=plan.count)
    finally:
        await _asked(api, ())
        await work.clean_up(api, namespace=NAMESPACE)


async def nobody(bench: Bench) -> Sequence[Phase]:
    """Ask nobody: what the API server takes by itself."""
    return [await _measured(bench, (), resource, "nobody") for resource in SAMPLES]


async def each(bench: Bench) -> Sequence[Phase]:
    """Ask one plugin after another, with something that its rules name."""
    return [
        await _measured(bench, (entry,), resource, entry.name)
        for entry in bench.entries
        for resource in SAMPLES
        if entry.concerns(resource)
    ]


async def everybody(bench: Bench) -> Sequence[Phase]:
    """Ask all of them, as it is in use."""
    return [await _measured(bench, bench.entries, resource, "everybody") for resource in SAMPLES]


PHASES: Final = (
    nobody,  # the floor
    each,  # what one plugin adds
    everybody,  # as it is in use
)


async def _measured(bench: Bench, entries: Sequence[Entry], resource: str, name: str) -> Phase:
    await _asked(bench.api, entries)
    sample = SAMPLES[resource]
    for number in range(_WARM):
        await _request(bench.api, sample, number)
    count = bench.count
    async with bench.meter.phase(f"{name}: {resource}", count) as phase:
        began = time.perf_counter()
        asked = []
        for number in range(count):
            # An open loop: a slow answer does not slow the questions down.
            await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
            asked.append(asyncio.create_task(_request(bench.api, sample, number)))
        phase.latencies = tuple(await asyncio.gather(*asked))
        phase.wall = time.perf_counter() - began
    phase.note = f"{count / phase.wall:.0f} requests/s"
    return phase


async def _asked(api: client.Client, entries: Sequence[Entry]) -> None:
    """Have exactly these webhooks asked, and wait until the API server knows."""
    for gvk in (MUTATING, VALIDATING):
        hooks = [copy.deepcopy(entry.webhook) for entry in entries if entry.gvk == gvk]
        body: Json = {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "metadata": {"name": CONFIGURATION},
            "webhooks": hooks,
        }
        await api.apply(body, manager="bench")
    await asyncio.sleep(2.0)  # its informer tells nobody when it has seen them


async def _request(api: client.Client, sample: Json, number: int) -> float:
    obj = copy.deepcopy(sample)
    obj["metadata"] |= {"name": f"bench-{number:05d}", "namespace": NAMESPACE}
    began = time.perf_counter()
    await api.apply(obj, manager="bench", dry_run=True)
    return time.perf_counter() - began


def _sample(api_version: str, kind: str, **fields: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, **fields}


SAMPLES: Final[dict[str, Json]] = {
    "kustomizations": _sample(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        spec={
            "interval": "10m",
            "prune": True,
            "path": "./apps",
            "sourceRef": {"kind": "GitRepository", "name": "bench"},
        },
    ),
    "gitrepositories": _sample(
        "source.toolkit.fluxcd.io/v1",
        "GitRepository",
        spec={"interval": "10m", "url": "https://git.example.com/bench", "suspend": True},
    ),
    "secrets": _sample("v1", "Secret", stringData={"key": "value"}),
    "configmaps": _sample("v1", "ConfigMap", data={"key": "value"}),
    "pods": _sample("v1", "Pod", spec={"containers": [{"name": "main", "image": load.IMAGE}]}),
}
