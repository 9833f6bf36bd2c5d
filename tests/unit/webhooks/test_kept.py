"""For how long values are kept, and that they are found out once at a time."""

import asyncio

import pytest

from tests.fakes import virtualtime
from webhooks.kept import Kept


class Source:
    """Gives another number each time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing = False
        self.seconds = 0.0

    async def find(self) -> int:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        if self.failing:
            raise ValueError("not now")
        return self.asked


def test_value_is_kept_for_its_time_and_no_longer() -> None:
    async def run() -> list[int]:
        kept, source, found = Kept[int](seconds=10), Source(), []
        for pause in (0.0, 9.0, 2.0):
            await asyncio.sleep(pause)
            found.append(await kept.get("a", source.find))
        return found

    assert virtualtime.run(run) == [1, 1, 2]


async def test_who_asks_at_once_gets_one_answer() -> None:
    kept, source = Kept[int](seconds=10), Source()

    found = await asyncio.gather(*(kept.get("a", source.find) for _ in range(50)))

    assert set(found) == {1}


async def test_failure_is_not_kept() -> None:
    kept, source = Kept[int](seconds=10), Source()
    source.failing = True
    with pytest.raises(ValueError, match="not now"):
        await kept.get("a", source.find)
    source.failing = False

    assert await kept.get("a", source.find) == 2


async def test_next_one_tries_when_the_first_gives_up() -> None:
    kept, source = Kept[int](seconds=10), Source()
    source.seconds = 3600
    first = asyncio.create_task(kept.get("a", source.find))
    await asyncio.sleep(0)
    second = asyncio.create_task(kept.get("a", source.find))
    await asyncio.sleep(0)
    source.seconds = 0

    first.cancel()

    assert await second == 2


async def test_least_used_goes_first() -> None:
    kept, source = Kept[int](seconds=10, capacity=2), Source()
    for key in ("a", "b", "a", "c"):
        await kept.get(key, source.find)

    assert await kept.get("a", source.find) == 1
    assert await kept.get("b", source.find) == 4
