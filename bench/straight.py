"""What the gate takes by itself: reviews straight to it, with no API server between.

They come as an API server's do: with TLS, trusted by what the configuration was armed with, over
connections that stay open, with the timeout of the webhook. The gate has a core of its own. What is
told is the whole time until the answer is read, so it holds what this process takes for asking.
"""

import asyncio
import base64
import copy
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from bench import admission, cores, reviews, work
from bench.admission import ASKED, Bench, Entry, Sample
from bench.measure import Phase
from toolkit.errors import PenstockError
from toolkit.objects import Json, gvk_of

LEAST: Final = 1000
"""Reviews in a row; of fewer, the slowest hundredth says little."""
ROWS: Final = (
    ("specs", "validation", "kustomizations"),
    ("specs", "validation", "gitrepositories"),
    ("imageverification", "imageverification", "pods, signed, by digest"),
)
"""Webhooks, the plugin of each that is asked, and the sample that it is asked about."""
_CONNECTIONS: Final = 25
_WARM: Final = 50
_HEADERS: Final = {"Content-Type": "application/json"}


async def straight(bench: Bench) -> Sequence[Phase]:
    """Ask single plugins of the gate, which has one core to itself."""
    await admission.asked(bench.api, ())
    entries = {entry.name: entry for entry in bench.entries}
    samples = {sample.name: sample for sample in bench.samples}
    with cores.apart(bench.meter.watched.controllers) as alone:
        return [
            await _measured(bench, entries[webhook], plugin, samples[name], alone=alone)
            for webhook, plugin, name in ROWS
        ]


async def _measured(
    bench: Bench, entry: Entry, plugin: str, sample: Sample, *, alone: bool
) -> Phase:
    count = max(bench.count, LEAST)
    obj = await _stored(bench, sample)
    urls = bench.meter.watched.metrics
    async with reached(entry, plugin) as gate:
        for number in range(_WARM):
            await gate.review(body(obj, sample, number))
        before = await reviews.read(urls)
        name = f"straight, {plugin}: {sample.name}"
        async with bench.meter.phase(name, count) as phase:
            began, sent = time.perf_counter(), list[asyncio.Task[float]]()
            async for number in work.paced(count, bench.pace):
                review = gate.review(body(obj, sample, number))
                sent.append(asyncio.create_task(review))
            phase.latencies = tuple(await asyncio.gather(*sent))
            phase.wall = time.perf_counter() - began
    said = (await reviews.read(urls)).since(before)
    where = "a core of its own" if alone else "no core of its own"
    phase.note = f"{count / phase.wall:.0f}/s; {where}; {said.told(count)}"
    return phase


async def _stored(bench: Bench, sample: Sample) -> Json:
    """Return the object as API servers show it: with defaults and managed fields."""
    obj = copy.deepcopy(sample.body)
    obj["metadata"] |= {"name": "bench", "namespace": ASKED}
    return (await bench.api.apply(obj, manager="bench", dry_run=True)).object


def body(obj: Json, sample: Sample, number: int) -> bytes:
    """Return the review of an object that is created."""
    gvk, name = gvk_of(obj), f"bench-{number:05d}"
    kind = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    resource = {"group": gvk.group, "version": gvk.version, "resource": sample.resource}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": name,
            "namespace": obj["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "bench", "groups": ["system:authenticated"]},
            "object": {**obj, "metadata": {**obj["metadata"], "name": name}},
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }
    return msgspec.json.encode(review)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One plugin, where it answers by itself."""

    session: aiohttp.ClientSession
    url: str

    async def review(self, body: bytes) -> float:
        """Return the seconds until the answer was read."""
        began = time.perf_counter()
        async with self.session.post(self.url, data=body, headers=_HEADERS) as response:
            answer = await response.read()
        took = time.perf_counter() - began
        if response.status != 200 or not msgspec.json.decode(answer)["response"]["allowed"]:
            raise PenstockError(f"the gate does not let the object pass: {answer.decode()}")
        return took


@asynccontextmanager
async def reached(entry: Entry, plugin: str) -> AsyncIterator[Gate]:
    """Reach a plugin of a webhook, over connections that stay open."""
    config = entry.webhook["clientConfig"]
    bundle = base64.b64decode(config["caBundle"]).decode()
    connector = aiohttp.TCPConnector(
        ssl=ssl.create_default_context(cadata=bundle), limit=_CONNECTIONS, keepalive_timeout=90
    )
    timeout = int(entry.webhook["timeoutSeconds"])
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=timeout)
    ) as session:
        url = f"{config['url'].rpartition('/')[0]}/{plugin}"
        yield Gate(session=session, url=f"{url}?timeout={timeout}s")
