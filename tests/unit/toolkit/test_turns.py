"""Places are shared between flows, and nobody waits in a queue without end."""

import asyncio

import pytest

from toolkit.turns import BusyError, Turns, fair, room


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


async def test_no_number_of_busy_flows_leaves_nothing() -> None:
    for flows in range(1, 16):
        turns, order = Turns(places=64, waiting=8000), list[str]()
        guests = [Guest(turns, f"n{number % flows}", order) for number in range(80 * flows)]
        await settle()

        last = Guest(turns, "victim", order)
        await settle()

        assert order[-1] == "victim"
        await empty(*guests, last)


async def test_two_flows_do_not_fill_the_queue() -> None:
    turns, order = Turns(places=1, waiting=64), list[str]()
    guests = [Guest(turns, name, order) for name in ("a", "b") for _ in range(64)]
    await settle()

    last = Guest(turns, "victim", order)
    await settle()

    assert not last.task.done()
    await empty(*guests, last)
    assert order[:4].count("victim") == 1


@pytest.mark.parametrize(
    ("own", "taken", "places", "allowed"),
    [
        (0, 0, 1, True),
        (0, 1, 1, False),
        (1, 1, 2, False),
        (47, 47, 64, True),
        (48, 48, 64, False),
        (26, 53, 64, True),
        (27, 54, 64, True),
        (27, 55, 64, False),
        (0, 63, 64, True),
        (3, 63, 64, False),
        (0, 0, 0, False),
    ],
)
def test_a_flow_holds_at_most_three_times_what_is_left(
    own: int, taken: int, places: int, *, allowed: bool
) -> None:
    assert fair(own, taken, places) is allowed


class Traveller:
    """Holds a place, is away until told to come back, and stays until told to go."""

    def __init__(self, turns: Turns, flow: str, order: list[str]) -> None:
        self.back, self._go = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._travel(turns, flow, order))

    async def _travel(self, turns: Turns, flow: str, order: list[str]) -> None:
        async with turns.turn(flow) as turn:
            order.append(f"{flow} works")
            async with turn.away():
                order.append(f"{flow} waits")
                await self.back.wait()
            order.append(f"{flow} works on")
            await self._go.wait()

    def leave(self) -> None:
        self.back.set()
        self._go.set()


async def test_a_place_is_for_work_and_not_for_waiting() -> None:
    turns, order = Turns(places=1, waiting=8), list[str]()
    away = [Traveller(turns, "a", order) for _ in range(2)]
    await settle()
    assert turns.running == 0

    working = Guest(turns, "b", order)
    await settle()
    away[0].back.set()
    await settle()

    assert order == ["a works", "a waits", "a works", "a waits", "b"]
    working.leave()
    await settle()
    assert order[-1] == "a works on"
    for each in away:
        each.leave()
    await asyncio.gather(*(each.task for each in away))
    assert (turns.running, turns.waiting) == (0, 0)


async def test_a_flow_that_is_away_too_often_keeps_its_places() -> None:
    turns, order = Turns(places=2, waiting=32), list[str]()
    away = [Traveller(turns, "a", order) for _ in range(12)]
    await settle()

    assert turns.running == 1
    other = Traveller(turns, "b", order)
    await settle()
    assert order[-1] == "b waits"
    for each in (*away, other):
        each.leave()
    await asyncio.gather(*(each.task for each in (*away, other)))
    assert (turns.running, turns.waiting) == (0, 0)


async def test_an_error_while_away_leaves_no_trace() -> None:
    turns = Turns(places=1, waiting=1)

    with pytest.raises(ValueError, match="lost"):
        async with turns.turn("a") as turn, turn.away():
            raise ValueError("lost")

    assert (turns.running, turns.waiting) == (0, 0)
    async with turns.turn("b"):
        assert turns.running == 1


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


@pytest.mark.parametrize("alone", range(1, 40))
async def test_room_for_one_flow_leaves_a_place_for_another(alone: int) -> None:
    turns, order = Turns(places=room(alone), waiting=10_000), list[str]()

    guests = [Guest(turns, "a", order) for _ in range(2 * alone + 4)]
    await settle()
    other = Guest(turns, "b", order)
    await settle()

    assert order == ["a"] * alone + ["b"]
    await empty(*guests, other)


def test_no_flow_needs_no_room() -> None:
    assert room(0) == 0
