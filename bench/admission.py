"""What admission costs: requests at a steady pace, of each plugin that is asked, and of all.

Every request is a dry-run, so that only the way to a decision is measured and nothing is stored.
The configurations that Penstock has armed are deleted, which it leaves at that, and copies with one
webhook each take their place. They concern one of two namespaces: blocks of requests go to the one
and to the other in turns, so that whatever else the machine does weighs on both alike.
"""

import asyncio
import contextlib
import copy
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bench import images, load, reviews, work
from bench.given import Given
from bench.images import Images
from bench.measure import Meter, Phase
from toolkit.errors import PenstockError
from toolkit.kube import client
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json

ASKED: Final = "bench-admission"
NOBODY: Final = "bench-admission-nobody"
BLOCK: Final = 100
"""Requests to one namespace before the other has its turn."""
CONFIGURATION: Final = "bench"
MUTATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)
VALIDATING: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
)
_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
_WARM: Final = 20
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One webhook as Penstock has armed it."""

    gvk: GroupVersionKind
    webhook: Json

    @property
    def name(self) -> str:
        """Return the name of the webhook."""
        return str(self.webhook["name"]).partition(".")[0]

    def concerns(self, resource: str) -> bool:
        """Tell whether the webhook's rules name a resource."""
        return any(resource in rule.get("resources", ()) for rule in self.webhook["rules"])

    def narrowed(self) -> Json:
        """Return the webhook for the namespace alone in which it is to be asked."""
        mine = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [ASKED]}
        hook = copy.deepcopy(self.webhook)
        selector = hook.setdefault("namespaceSelector", {})
        selector["matchExpressions"] = [*selector.get("matchExpressions", ()), mine]
        return hook


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is written: its name in the table, the resource as rules name it, the object.

    ``refused_by`` are plugins that, asked alone, would not let it pass.
    """

    name: str
    resource: str
    body: Json
    refused_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share.

    ``count`` is how many requests a phase sends to each namespace, ``pace`` how many a second.
    """

    api: client.Client
    meter: Meter
    entries: Sequence[Entry]
    samples: Sequence[Sample]
    count: int
    pace: float


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Make the namespaces and the images, and take the armed configurations apart."""
    api = given.api
    async with (
        given.namespace(NOBODY),
        given.namespace(ASKED),
        _disarmed(api),
        images.served(api, namespaces=(ASKED, NOBODY)) as made,
    ):
        entries = await _taken_apart(api)
        await asked(api, entries)
        await _require_effect(api, made)
        yield Bench(
            api=api,
            meter=given.meter,
            entries=entries,
            samples=samples(made),
            count=given.plan.count,
            pace=given.plan.pace,
        )


@asynccontextmanager
async def _disarmed(api: client.Client) -> AsyncIterator[None]:
    """Have nobody asked any more when the block ends."""
    try:
        yield
    finally:
        await asked(api, ())


async def everybody(bench: Bench) -> Sequence[Phase]:
    """Ask all plugins, as it is in use."""
    return [await _measured(bench, bench.entries, each, "all") for each in bench.samples]


async def each(bench: Bench) -> Sequence[Phase]:
    """Ask one plugin after another, with something that its rules name."""
    return [
        await _measured(bench, (entry,), sample, entry.name)
        for sample in bench.samples
        for entry in bench.entries
        if entry.concerns(sample.resource) and entry.name not in sample.refused_by
    ]


PHASES: Final = (
    everybody,  # as it is in use
    each,  # what one plugin adds
)


async def _measured(bench: Bench, entries: Sequence[Entry], sample: Sample, name: str) -> Phase:
    await asked(bench.api, entries)
    for number in range(_WARM):
        for namespace in (ASKED, NOBODY):
            await _request(bench.api, sample, namespace, number)
    urls = bench.meter.watched.metrics
    before = await reviews.read(urls)
    async with bench.meter.phase(f"{name}: {sample.name}", bench.count) as phase:
        began = time.perf_counter()
        sent: dict[str, list[asyncio.Task[float]]] = {ASKED: [], NOBODY: []}
        async for number in work.paced(2 * bench.count, bench.pace):
            namespace = NOBODY if number // BLOCK % 2 else ASKED
            request = _request(bench.api, sample, namespace, number)
            sent[namespace].append(asyncio.create_task(request))
        phase.latencies = tuple(await asyncio.gather(*sent[ASKED]))
        phase.beside = tuple(await asyncio.gather(*sent[NOBODY]))
        phase.wall = time.perf_counter() - began
    said = (await reviews.read(urls)).since(before)
    phase.note = f"{2 * bench.count / phase.wall:.0f}/s; {said.told(len(phase.latencies))}"
    return phase


async def _taken_apart(api: client.Client) -> list[Entry]:
    """Return the armed webhooks once those for images are among them, and disarm them."""
    found: list[Entry] = []

    async def armed() -> bool:
        found.clear()
        for gvk in (MUTATING, VALIDATING):
            for each in await api.list(
                gvk, label_selector="app.kubernetes.io/instance=penstock-system"
            ):
                found.extend(Entry(gvk=gvk, webhook=hook) for hook in each["webhooks"])
        return {"imagepinning", "imageverification"} <= {entry.name for entry in found}

    await _until(armed, "the gate is not armed for images")
    for gvk in (MUTATING, VALIDATING):
        for each in await api.list(
            gvk, label_selector="app.kubernetes.io/instance=penstock-system"
        ):
            await api.delete(gvk, each["metadata"]["name"])
    return found


async def asked(api: client.Client, entries: Sequence[Entry]) -> None:
    """Have exactly these webhooks asked, and wait until the API server knows."""
    for gvk in (MUTATING, VALIDATING):
        hooks = [entry.narrowed() for entry in entries if entry.gvk == gvk]
        body: Json = {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "metadata": {"name": CONFIGURATION},
            "webhooks": hooks,
        }
        await api.apply(body, manager="bench")
    await asyncio.sleep(2.0)  # its informer tells nobody when it has seen them


async def _require_effect(api: client.Client, made: Images) -> None:
    """Wait until pods can be made in both namespaces, and the policy is known where it counts.

    Otherwise it would be measured how quickly nothing is found out.
    """
    for namespace in (ASKED, NOBODY):
        await _until(functools.partial(_exists, api, namespace), "there is no service account")
    unsigned = _pod("unsigned", made.unsigned)

    async def refused(namespace: str) -> bool:
        try:
            await _request(api, unsigned, namespace, 0)
        except ForbiddenError:
            return True
        return False

    async def alone() -> bool:
        return await refused(ASKED) and not await refused(NOBODY)

    await _until(alone, "images are not refused in one namespace, and in one alone,")


async def _exists(api: client.Client, namespace: str) -> bool:
    with contextlib.suppress(NotFoundError):
        await api.get(_ACCOUNT, "default", namespace)
        return True
    return False


async def _until(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not await holds():
        if time.monotonic() > end:
            raise PenstockError(f"{otherwise} after {_PATIENCE:.0f}s")
        await asyncio.sleep(0.1)


async def _request(api: client.Client, sample: Sample, namespace: str, number: int) -> float:
    obj = copy.deepcopy(sample.body)
    obj["metadata"] |= {"name": f"bench-{number:05d}", "namespace": namespace}
    began = time.perf_counter()
    await api.apply(obj, manager="bench", dry_run=True)
    return time.perf_counter() - began


def samples(made: Images) -> tuple[Sample, ...]:
    """Return what is written, pods of the signed image among it."""
    return (
        _sample(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            spec={
                "interval": "10m",
                "prune": True,
                "path": "./apps",
                "sourceRef": {"kind": "GitRepository", "name": "bench"},
            },
        ),
        _sample(
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            spec={"interval": "10m", "url": "https://git.example.com/bench", "suspend": True},
        ),
        _sample("v1", "Secret", stringData={"key": "value"}),
        _sample("v1", "ConfigMap", data={"key": "value"}),
        _pod("pods, no policy", load.IMAGE),
        # The tag is a digest by the time that the final object is looked at.
        _pod("pods, signed, by tag", made.tagged, refused_by=frozenset({"imageverification"})),
        _pod("pods, signed, by digest", made.pinned),
    )


def _sample(api_version: str, kind: str, **fields: Json) -> Sample:
    resource = "gitrepositories" if kind == "GitRepository" else f"{kind.lower()}s"
    body = {"apiVersion": api_version, "kind": kind, "metadata": {}, **fields}
    return Sample(name=resource, resource=resource, body=body)


def _pod(name: str, image: str, *, refused_by: frozenset[str] = frozenset()) -> Sample:
    spec = {"containers": [{"name": "main", "image": image}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}
    return Sample(name=name, resource="pods", body=body, refused_by=refused_by)
