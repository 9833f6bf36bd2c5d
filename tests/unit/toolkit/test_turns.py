"""Places are shared between flows, and nobody waits in a queue without end."""

import asyncio

import pytest

from toolkit.turns import BusyError, Turns


class Guest:
    """Holds a place until told to go."""

    def __init__(self, turns: Turns, flow: str, order: list[str]) -> None:
        self._go = asyncio.Event()
        self.task = asyncio.create_task(self._stay(turns, flow, order))

    async def _stay(self, turns: Turns, flow: str, order: list[str]) -> None:
        async with turns.turn(flow):
            order.append(flow)
            await self._go.wait()

    def leave(self) -> None:
        self._go.set()


async def empty(*guests: Guest) -> None:
    """Let all go, and anyone who waits after them."""
    for guest in guests:
        guest.leave()
    await asyncio.gather(*(guest.task for guest in guests), return_exceptions=True)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_flow_does_not_get_every_place() -> None:
    turns, order = Turns(places=4, waiting=10), list[str]()

    guests = [Guest(turns, "a", order) for _ in range(6)]
    await settle()
    other = Guest(turns, "b", order)
    await settle()

    assert order == ["a", "a", "a", "b"]
    await empty(*guests, other)
    assert (turns.running, turns.waiting) == (0, 0)


async def test_who_waits_is_let_in_flow_by_flow() -> None:
    turns, order = Turns(places=1, waiting=10), list[str]()
    guests = [Guest(turns, name, order) for name in ("a", "a", "a", "b", "c")]
    await settle()

    await empty(*guests)

    assert order == ["a", "a", "b", "c", "a"]


async def test_a_queue_has_an_end() -> None:
    turns, order = Turns(places=1, waiting=4), list[str]()
    guests = [Guest(turns, f"n{number}", order) for number in range(5)]
    await settle()

    with pytest.raises(BusyError, match="try again"):
        async with turns.turn("late"):
            pass

    await empty(*guests)


async def test_one_flow_does_not_fill_the_queue() -> None:
    turns, order = Turns(places=1, waiting=4), list[str]()
    guests = [Guest(turns, "a", order) for _ in range(4)]
    await settle()

    with pytest.raises(BusyError):
        async with turns.turn("a"):
            pass
    guests.append(Guest(turns, "b", order))
    await settle()

    assert turns.waiting == 4
    await empty(*guests)


async def test_who_gives_up_leaves_no_trace() -> None:
    turns, order = Turns(places=1, waiting=4), list[str]()
    first = Guest(turns, "a", order)
    await settle()
    waiting = Guest(turns, "b", order)
    await settle()

    waiting.task.cancel()
    await settle()
    await empty(first)

    assert order == ["a"]
    assert (turns.running, turns.waiting) == (0, 0)


async def test_a_place_that_comes_with_the_cancellation_is_given_on() -> None:
    turns, order = Turns(places=1, waiting=4), list[str]()
    first, second, third = (Guest(turns, name, order) for name in "abc")
    await settle()

    first.leave()
    await asyncio.sleep(0)
    second.task.cancel()
    await settle()

    assert "c" in order
    await empty(third)
    assert (turns.running, turns.waiting) == (0, 0)
