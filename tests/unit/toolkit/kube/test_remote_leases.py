"""How long clients of remote clusters stay open: for as long as somebody uses them, no longer."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
import pytest
import yaml

from crds.meta import KubeConfigReference, SecretKeyReference
from tests.fakes.apiserver import FakeApiServer
from tests.tools import sessions
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A cluster that is reached as many users, each by a client of its own."""

    own: FakeApiServer
    far: FakeApiServer
    url: str
    remotes: RemoteClients
    before: frozenset[aiohttp.ClientSession]

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[Client]:
        """Give the client of a user, after it was used once."""
        text = yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": self.url}}],
                "users": [{"name": "x", "user": {"token": user}}],
            }
        )
        self.own.put("secrets", user, data={"value": base64.b64encode(text.encode()).decode()})
        ref = KubeConfigReference(secret_ref=SecretKeyReference(name=user))
        async with self.remotes.client("default", ref) as client:
            await read(client)
            yield client

    async def visit(self, *users: str) -> list[Client]:
        """Use the clients one after the other."""
        visited = []
        for user in users:
            async with self.client(user) as client:
                visited.append(client)
        return visited

    @property
    def opened(self) -> int:
        """Return how many pools to the far cluster are open."""
        return len(sessions.opened() - self.before)


@asynccontextmanager
async def scene(*, size: int) -> AsyncIterator[Scene]:
    own, far = FakeApiServer(), FakeApiServer()
    far.put("configmaps", "a")
    async with own.running() as client, far.running() as direct:
        own.put("configmaps", "a")
        await read(client)
        before = sessions.opened()
        async with RemoteClients(client, size=size, allow_insecure_tls=True) as remotes:
            yield Scene(own=own, far=far, url=direct.server, remotes=remotes, before=before)
        assert sessions.opened() <= before


async def read(client: Client) -> str:
    found = await client.get(CONFIG_MAP, "a", "default")
    return str(found["metadata"]["name"])


async def test_client_stays_open_while_its_answer_is_on_the_way() -> None:
    async with scene(size=1) as world, AsyncExitStack() as until_answered:
        first = await until_answered.enter_async_context(world.client("first"))
        world.far.hang = asyncio.Event()
        asked = len(world.far.requests)
        answer = asyncio.create_task(read(first))
        while len(world.far.requests) == asked:  # noqa: ASYNC110 - the fake has no event
            await asyncio.sleep(0)
        hang, world.far.hang = world.far.hang, None
        await world.visit("second", "third", "fourth")
        hang.set()

        assert await answer == "a"
        assert world.opened == 2
        await until_answered.aclose()
        assert world.opened == 1


async def test_more_clusters_at_once_than_are_kept_disturb_each_other_in_nothing() -> None:
    users = [f"user-{number}" for number in range(7)]

    async with scene(size=2) as world:
        async with AsyncExitStack() as together:
            clients = [await together.enter_async_context(world.client(user)) for user in users]
            again = await world.visit(*users)
            assert [await read(client) for client in clients] == ["a"] * 7
            assert world.opened == 7
        last = await world.visit(*users[-2:])

        assert again == clients
        assert world.opened == 2
        assert set(last) <= set(clients)


async def test_clusters_in_rotation_leave_no_more_open_than_are_kept() -> None:
    users = [f"user-{number}" for number in range(5)]

    async with scene(size=3) as world:
        await world.visit(*users, *users, *users)

        assert world.opened == 3


async def test_held_client_makes_room_when_all_have_released_it() -> None:
    async with scene(size=0) as world:
        async with world.client("held") as client:
            world.remotes.hold(client)
            world.remotes.hold(client)
        world.remotes.release(client)
        await world.visit("another")
        assert await read(client) == "a"

        world.remotes.release(client)
        await world.visit("another")

        assert world.opened == 0
        with pytest.raises(ApiError, match="is closed"):
            await read(client)


async def test_failure_in_the_block_closes_what_is_too_much() -> None:
    async with scene(size=0) as world:
        with suppress(ZeroDivisionError):
            async with world.client("first"):
                raise ZeroDivisionError

        assert world.opened == 0


async def test_process_that_ends_closes_what_is_in_use_and_opens_nothing_more() -> None:
    async with scene(size=3) as world:
        async with world.client("first") as client:
            await world.remotes.close()

            assert world.opened == 0
            with pytest.raises(ApiError, match="is closed"):
                await read(client)
            with pytest.raises(ApiError, match="this process is stopping"):
                await world.visit("second")
        assert world.opened == 0
