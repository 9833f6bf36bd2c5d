"""What a migration remembers: written once at a time, and read again by the next run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cli.errors import FailedError
from cli.migrating.memory import NAME, Book, Memory, Part
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.client import Client

FLUX = "flux-system"
PART = Part("apps/v1", "Deployment", FLUX, "source-controller", {"a": "b"})
MEMORY = Memory(namespace="penstock-system", replicas={"source-controller": 2}, parts=(PART,))


def within(server: FakeApiServer, work: Callable[[Client], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with server.running() as api:
            await work(api)

    asyncio.run(inside())


def test_the_next_run_reads_what_was_written() -> None:
    async def work(api: Client) -> None:
        first, second = Book(api, FLUX), Book(api, FLUX)
        await first.open()
        assert not first.is_written
        await first.write(MEMORY)
        await second.open()
        assert second.memory == MEMORY
        await second.erase()
        await first.open()

    server = FakeApiServer()
    within(server, work)

    assert ("configmaps", FLUX, NAME) not in server.objects


def test_somebody_else_s_run_is_not_overwritten() -> None:
    async def work(api: Client) -> None:
        first, second = Book(api, FLUX), Book(api, FLUX)
        await first.open()
        await second.open()
        await first.write(MEMORY)
        with pytest.raises(FailedError, match="another `penstock migrate`"):
            await second.write(MEMORY)

    within(FakeApiServer(), work)


def test_what_cannot_be_read_is_said_with_the_remedy() -> None:
    server = FakeApiServer()
    server.put("configmaps", NAME, FLUX, data={"state.json": '{"replicas": 3}'})

    async def work(api: Client) -> None:
        with pytest.raises(FailedError, match=r"data\.state\.json: cannot be read"):
            await Book(api, FLUX).open()

    within(server, work)


@pytest.mark.parametrize(
    "part",
    [
        Part("v1", "Secret", FLUX, "keys"),
        Part("apps/v1", "Deployment", "shop", "web"),
        Part("rbac.authorization.k8s.io/v1", "Role", FLUX, "any"),
    ],
)
def test_what_is_no_part_of_flux_is_not_believed(part: Part) -> None:
    server = FakeApiServer()

    async def work(api: Client) -> None:
        written = Book(api, FLUX)
        await written.open()
        await written.write(Memory(parts=(PART, part)))
        with pytest.raises(FailedError, match=f"{part.name} is not a part of Flux"):
            await Book(api, FLUX).open()

    within(server, work)
