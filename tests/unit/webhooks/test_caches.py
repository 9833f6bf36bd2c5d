"""A cache that a policy makes necessary costs nothing until there is one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.tools.tasks import running
from toolkit.objects import GroupVersionKind, ObjectKey
from webhooks.services import Cache, Caches

SECRET = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
KEY = ObjectKey("default", "a")
Scenario = Callable[[FakeApiServer, Cache[bool], Cache[bool]], Awaitable[None]]


def decode(_: bytes) -> bool:
    return True


def play(scenario: Scenario) -> None:
    """Run a cache of ConfigMaps, and one of Secrets that is needed once there is a ConfigMap."""

    async def main() -> None:
        server = FakeApiServer()
        server.put("secrets", "a")
        async with server.running() as client:
            caches, asked = Caches(client), list[Cache[Any]]()
            watch = caches.watching(asked)
            first = watch(CONFIG_MAP, decode=decode)
            later = watch(SECRET, decode=decode, after=CONFIG_MAP)
            async with running(*(each.run() for each in caches.informers)):
                await first.wait_synced()
                await scenario(server, first, later)

    virtualtime.run(main)


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.05)


def test_nothing_is_watched_and_nobody_waits_without_the_first_one() -> None:
    async def scenario(server: FakeApiServer, _: Cache[bool], later: Cache[bool]) -> None:
        await _settle()

        assert server.count("GET", "/secrets") == 0
        assert later.synced
        assert not later.items()
        await later.wait_synced()

    play(scenario)


def test_a_review_that_knows_the_first_one_waits_until_all_is_known() -> None:
    async def scenario(server: FakeApiServer, first: Cache[bool], later: Cache[bool]) -> None:
        synced: list[bool] = []
        first.subscribe(lambda _: synced.append(later.synced))

        server.put("configmaps", "policy")
        while not synced:  # noqa: ASYNC110 - the clock is virtual
            await asyncio.sleep(0.05)
        await later.wait_synced()

        assert synced == [False]
        assert later.get(KEY) is True
        assert server.count("GET", "/secrets") == 1

    play(scenario)


def test_it_stays_when_the_first_one_has_gone() -> None:
    async def scenario(server: FakeApiServer, first: Cache[bool], later: Cache[bool]) -> None:
        server.put("configmaps", "policy")
        while not first.items():  # noqa: ASYNC110 - the clock is virtual
            await asyncio.sleep(0.05)
        await later.wait_synced()
        server.remove("configmaps", "policy")
        server.put("secrets", "b")
        await _settle()

        assert not first.items()
        assert {key.name for key in later.items()} == {"a", "b"}

    play(scenario)


def test_what_nobody_watches_cannot_come_first() -> None:
    async def main() -> None:
        async with FakeApiServer().running() as client:
            watch = Caches(client).watching([])
            with pytest.raises(LookupError, match="is not watched"):
                watch(SECRET, decode=decode, after=CONFIG_MAP)

    asyncio.run(main())
