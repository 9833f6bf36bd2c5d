"""Nobody takes all places, and too many are told to come back."""

import asyncio
import contextlib

import pytest

from apiserver.call import User
from apiserver.fairness import Fairness, Patience, flow_of
from apiserver.status import StatusError


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_user_leaves_places_to_others() -> None:
    fairness, go = Fairness(), asyncio.Event()
    entered: list[str] = []

    async def stay(name: str) -> None:
        async with fairness.place("subresources", User(name=name)):
            entered.append(name)
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(stay("alice"))
        await settle()
        group.create_task(stay("bob"))
        await settle()
        assert (entered.count("alice"), entered.count("bob")) == (12, 1)
        go.set()


async def test_service_accounts_of_a_namespace_share() -> None:
    one, other = (User(name=f"system:serviceaccount:team:{name}") for name in "ab")

    assert flow_of(one) == flow_of(other)
    assert flow_of(one) != flow_of(User(name="system:serviceaccount:other:a"))
    assert flow_of(User(name="alice")) == "alice"
    assert flow_of(User(name="x system:serviceaccount:team:a")) != flow_of(one)


async def test_too_many_watches_are_refused_and_those_that_end_make_room() -> None:
    fairness, alice = Fairness(), User(name="alice")

    with contextlib.ExitStack() as open_ones:
        for _ in range(1536):
            open_ones.enter_context(fairness.watch(alice))
        with pytest.raises(StatusError) as caught, fairness.watch(alice):
            pass
        with fairness.watch(User(name="bob")):
            pass
    with fairness.watch(alice):
        pass

    assert caught.value.code == 429
    assert caught.value.document()["details"]["retryAfterSeconds"] == 1


async def test_masters_do_not_wait_for_discovery() -> None:
    fairness, go = Fairness(), asyncio.Event()
    root = User(name="system:kube-aggregator", groups=("system:masters",))

    async def stay(number: int) -> None:
        async with fairness.place("documents", User(name=f"user-{number}")):
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(stay(number))
        await settle()
        async with fairness.place("documents", root):
            go.set()


def test_readers_that_take_nothing_are_given_up_sooner_while_many_do() -> None:
    patience = Patience()

    with contextlib.ExitStack() as slow:
        early = [slow.enter_context(patience.writing("alice")) for _ in range(512)]
        with patience.writing("alice") as crowded, patience.writing("bob") as other:
            pass
        for number in range(512):
            slow.enter_context(patience.writing(f"user-{number}"))
        with patience.writing("carol") as full:
            pass
    with patience.writing("alice") as later:
        pass

    assert set(early) == {60.0}
    assert (crowded, other, full, later) == (5.0, 60.0, 5.0, 60.0)
