"""Who runs beside whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.tools.waiting import until
from toolkit.native.slots import Slots, Waits, never
from toolkit.turns import BusyError


class Work:
    """Operations that run until the test ends them."""

    def __init__(self, slots: Slots, waits: Waits) -> None:
        self.slots = slots
        self.waits = waits
        self.running: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    async def run(self, name: str) -> None:
        """Run an operation of the flow that its name begins with: ``<flow>/<operation>``."""
        async with self.slots.taken(name.partition("/")[0], timeout=60, waits=self.waits):
            self.running.append(name)
            await self.ends.setdefault(name, asyncio.Event()).wait()

    async def are(self, *names: str) -> None:
        """Wait until these have begun, in this order."""
        await until(lambda: tuple(self.running) == names)

    def end(self, name: str) -> None:
        self.ends[name].set()


@asynccontextmanager
async def working(slots: Slots, *names: str, waits: Waits = never) -> AsyncIterator[Work]:
    work = Work(slots, waits)
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(work.run(name))
        yield work


async def test_operations_that_do_not_last_wait_for_each_other() -> None:
    async with working(Slots(1, spares=2, waiting=3600, longest=3600), "t/a", "t/b") as work:
        await work.are("t/a")
        for _ in range(10):
            await asyncio.sleep(0)
        assert work.running == ["t/a"]
        work.end("t/a")
        await work.are("t/a", "t/b")
        work.end("t/b")


async def test_operation_that_lasts_makes_room() -> None:
    async with working(Slots(1, spares=1, longest=0), "t/a", "t/b", "t/c") as work:
        await work.are("t/a", "t/b")  # c waits: there is one spare slot
        work.end("t/b")
        await work.are("t/a", "t/b", "t/c")
        work.end("t/a")
        work.end("t/c")


async def test_operation_that_waits_makes_room() -> None:
    asked: list[float] = []
    waiting = asyncio.Event()

    def waits(seconds: float) -> bool:
        asked.append(seconds)
        return waiting.is_set()

    slots = Slots(1, spares=1, waiting=0.001, longest=3600)
    async with working(slots, "t/a", "t/b", waits=waits) as work:
        await until(lambda: len(asked) > 1)
        assert work.running == ["t/a"]
        waiting.set()
        await work.are("t/a", "t/b")
        work.end("t/a")
        work.end("t/b")


async def test_spare_slot_goes_to_the_next_that_lasts() -> None:
    async with working(Slots(1, spares=1, longest=0), "t/a", "t/b", "t/c") as work:
        await work.are("t/a", "t/b")
        work.end("t/a")  # b takes its spare slot
        await work.are("t/a", "t/b", "t/c")
        work.end("t/b")
        work.end("t/c")


async def test_all_slots_are_free_once_everything_has_ended() -> None:
    slots = Slots(1, spares=1, longest=0)
    async with working(slots, "t/a", "t/b") as work:
        await work.are("t/a", "t/b")
        drained = asyncio.create_task(slots.drained())
        work.end("t/b")
        await asyncio.sleep(0)
        assert not drained.done()
        work.end("t/a")
        await drained

    async with working(slots, "t/c") as work:
        await work.are("t/c")
        work.end("t/c")


async def test_one_flow_never_holds_all_slots() -> None:
    slots = Slots(2, longest=3600)
    async with working(slots, "evil/1", "evil/2", "evil/3", "evil/4") as work:
        await work.are("evil/1", "evil/2")
        async with working(slots, "good/1") as other:
            await other.are("good/1")
            other.end("good/1")
        assert work.running == ["evil/1", "evil/2"]
        for name in ("evil/1", "evil/2", "evil/3", "evil/4"):
            await until(lambda name=name: name in work.running)
            work.end(name)


async def test_one_flow_never_holds_all_spare_slots() -> None:
    slots = Slots(1, spares=1, longest=0)
    async with working(slots, "evil/1", "evil/2", "evil/3") as work:
        await work.are("evil/1", "evil/2")
        async with working(slots, "good/1", "good/2") as other:
            await other.are("good/1", "good/2")
            other.end("good/1")
            other.end("good/2")
        for name in ("evil/1", "evil/2", "evil/3"):
            await until(lambda name=name: name in work.running)
            work.end(name)


async def test_flows_take_turns() -> None:
    slots = Slots(1, longest=3600)
    async with working(slots, "a/1", "b/1", "a/2", "a/3", "b/2", "c/1") as work:
        await work.are("a/1", "b/1")
        work.end("a/1")
        await until(lambda: "a/2" in work.running)
        work.end("a/2")
        await work.are("a/1", "b/1", "a/2", "c/1")
        for name in ("b/1", "b/2", "c/1", "a/3"):
            await until(lambda name=name: name in work.running)
            work.end(name)


async def test_one_flow_never_has_all_places_to_wait() -> None:
    slots = Slots(1)

    async def wait(flow: str) -> None:
        async with slots.taken(flow, timeout=60):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(wait("evil")) for _ in range(600)]
    await until(lambda: any(task.done() for task in tasks))
    assert all(isinstance(task.exception(), BusyError) for task in tasks if task.done())
    async with slots.taken("good", timeout=60):
        others = [asyncio.create_task(wait("good")) for _ in range(8)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in others)
    for task in (*tasks, *others):
        task.cancel()
    await asyncio.gather(*tasks, *others, return_exceptions=True)
    await slots.drained()


async def test_slot_that_is_not_free_in_time_is_given_up() -> None:
    slots = Slots(1)
    async with slots.taken("a", timeout=60):
        with pytest.raises(TimeoutError):
            async with slots.taken("a", timeout=0):
                raise AssertionError("there was none")
    await slots.drained()
