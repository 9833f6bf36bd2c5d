"""Who runs beside whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.tools.waiting import until
from toolkit.native.slots import Slots, Waits, never


class Work:
    """Operations that run until the test ends them."""

    def __init__(self, slots: Slots, waits: Waits) -> None:
        self.slots = slots
        self.waits = waits
        self.running: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    async def run(self, name: str) -> None:
        async with self.slots.taken(timeout=60, waits=self.waits):
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
    async with working(Slots(1, spares=2, waiting=3600, longest=3600), "a", "b") as work:
        await work.are("a")
        for _ in range(10):
            await asyncio.sleep(0)
        assert work.running == ["a"]
        work.end("a")
        await work.are("a", "b")
        work.end("b")


async def test_operation_that_lasts_makes_room() -> None:
    async with working(Slots(1, spares=1, longest=0), "a", "b", "c") as work:
        await work.are("a", "b")  # c waits: there is one spare slot
        work.end("b")
        await work.are("a", "b", "c")
        work.end("a")
        work.end("c")


async def test_operation_that_waits_makes_room() -> None:
    asked: list[float] = []
    waiting = asyncio.Event()

    def waits(seconds: float) -> bool:
        asked.append(seconds)
        return waiting.is_set()

    slots = Slots(1, spares=1, waiting=0.001, longest=3600)
    async with working(slots, "a", "b", waits=waits) as work:
        await until(lambda: len(asked) > 1)
        assert work.running == ["a"]
        waiting.set()
        await work.are("a", "b")
        work.end("a")
        work.end("b")


async def test_spare_slot_goes_to_the_next_that_lasts() -> None:
    async with working(Slots(1, spares=1, longest=0), "a", "b", "c") as work:
        await work.are("a", "b")
        work.end("a")  # b takes its spare slot
        await work.are("a", "b", "c")
        work.end("b")
        work.end("c")


async def test_all_slots_are_free_once_everything_has_ended() -> None:
    slots = Slots(1, spares=1, longest=0)
    async with working(slots, "a", "b") as work:
        await work.are("a", "b")
        drained = asyncio.create_task(slots.drained())
        work.end("b")
        await asyncio.sleep(0)
        assert not drained.done()
        work.end("a")
        await drained

    async with working(slots, "c") as work:
        await work.are("c")
        work.end("c")
