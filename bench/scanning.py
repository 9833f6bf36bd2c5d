"""The life of N ImageRepositories of 1,000 tags each, with a policy each, against one registry.

Tags are those of one image under as many names, so that the bench pushes once for each repository.
The registry gives entity tags for its lists, as registries do that answer conditional requests.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bench import load, work
from bench.collection import Collection, Predicate
from bench.given import Given
from bench.measure import Phase
from tests.fakes.registry import FakeRegistry
from toolkit.objects import GroupVersionKind, Json, dig

NAMESPACE: Final = "bench-images"
TAGS: Final = 1000
"""As many as a page may have, so that the registry is also asked what follows."""
GROUP: Final = "image.toolkit.fluxcd.io"
REPOSITORY: Final = GroupVersionKind(GROUP, "v1", "ImageRepository")
POLICY: Final = GroupVersionKind(GROUP, "v1", "ImagePolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all phases share; both kinds as watches show them."""

    given: Given
    registry: FakeRegistry
    repositories: Collection
    policies: Collection


@asynccontextmanager
async def prepared(given: Given) -> AsyncIterator[Bench]:
    """Fill a registry, and make the namespace."""
    async with (
        given.namespace(NAMESPACE),
        FakeRegistry(page=TAGS + 100) as served,
        given.watched(NAMESPACE, REPOSITORY, POLICY) as (repositories, policies),
    ):
        served.entity_tags = True
        for name in given.names:
            _push(served, name)
        yield Bench(
            given=given,
            registry=served,
            repositories=repositories,
            policies=policies,
        )


async def create(bench: Bench) -> Phase:
    """Create all; done when every policy has chosen."""

    async def both(name: str) -> None:
        await bench.given.api.create(_repository(bench, name))
        await bench.given.api.create(_policy(bench, name))

    async with _measured(bench, "first scan -> chosen") as phase:
        began = time.perf_counter()
        await work.parallel(bench.given.names, both)
        reached = await bench.policies.all(
            bench.given.names,
            _chosen(f"1.{TAGS - 1}.0"),
            seconds=bench.given.plan.patience,
            what="nothing chosen",
        )
        work.timed(phase, began, reached)
    return phase


async def unchanged(bench: Bench) -> Phase:
    """Request a scan of all, with nothing new."""
    token = work.token()
    return await _scanned(bench, "unchanged scan", token, bench.repositories, work.handled(token))


async def one_more(bench: Bench) -> Phase:
    """Push a tag to each; done when every policy has it."""
    for name in bench.given.names:
        tags = bench.registry.tags[name]
        tags["2.0.0"] = next(iter(tags.values()))
    return await _scanned(bench, "one new tag each", work.token(), bench.policies, _chosen("2.0.0"))


async def delete(bench: Bench) -> Phase:
    """Delete all; done when all are gone."""

    async def both(name: str) -> None:
        await bench.given.api.delete(POLICY, name, NAMESPACE)
        await bench.given.api.delete(REPOSITORY, name, NAMESPACE)

    async with _measured(bench, "delete all") as phase:
        began = time.perf_counter()
        await work.parallel(bench.given.names, both)
        reached = await bench.repositories.all(
            bench.given.names, work.gone, seconds=bench.given.plan.patience, what="not deleted"
        )
        work.timed(phase, began, reached)
    return phase


PHASES: Final = (
    create,  # list, keep, choose
    unchanged,  # one conditional request each
    one_more,  # list, keep, choose again
    delete,  # finalizers, the store
)


async def _scanned(
    bench: Bench, title: str, token: str, waited: Collection, verdict: Predicate
) -> Phase:
    """Request a scan of all; wait until the objects are there."""
    async with _measured(bench, title) as phase:
        began = time.perf_counter()
        await work.parallel(
            bench.given.names,
            lambda name: work.ask(bench.given.api, REPOSITORY, name, NAMESPACE, token),
        )
        reached = await waited.all(
            bench.given.names, verdict, seconds=bench.given.plan.patience, what="not scanned"
        )
        work.timed(phase, began, reached)
    return phase


@asynccontextmanager
async def _measured(bench: Bench, name: str) -> AsyncIterator[Phase]:
    """Measure a phase, and count what the registry was asked for each object."""
    before = Counter(bench.registry.counts)
    conditional = _conditional(bench)
    async with bench.given.meter.phase(name, bench.given.plan.count) as phase:
        yield phase
    asked = Counter(bench.registry.counts) - before
    told = [
        f"{what}: {number / bench.given.plan.count:.2f}" for what, number in sorted(asked.items())
    ]
    told.append(f"conditional: {(_conditional(bench) - conditional) / bench.given.plan.count:.2f}")
    phase.note = ", ".join(told)


def _conditional(bench: Bench) -> int:
    return sum("If-None-Match" in each.headers for each in bench.registry.seen)


def _chosen(tag: str) -> Predicate:
    return lambda obj: dig(obj or {}, "status", "latestRef", "tag", default="") == tag


def _push(served: FakeRegistry, name: str) -> None:
    digest = str(served.push(name, "1.0.0", [name.encode()])["digest"])
    served.tags[name] = {f"1.{number}.0": digest for number in range(TAGS)}


def _repository(bench: Bench, name: str) -> Json:
    spec = {"image": f"{bench.registry.host}/{name}", "interval": "1h", "insecure": True}
    return _object(bench, REPOSITORY, name) | {"spec": spec}


def _policy(bench: Bench, name: str) -> Json:
    choice = {"semver": {"range": ">=1.0.0"}}
    spec = {"imageRepositoryRef": {"name": name}, "policy": choice}
    return _object(bench, POLICY, name) | {"spec": spec}


def _object(bench: Bench, gvk: GroupVersionKind, name: str) -> Json:
    return load.custom(gvk, name, bench.given.plan.labels, namespace=NAMESPACE)
