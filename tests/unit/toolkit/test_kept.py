"""For how long values are kept, and that they are found out once at a time."""

import asyncio

import pytest

from tests.fakes import virtualtime
from toolkit.errors import TransientError
from toolkit.kept import Kept


class Source:
    """Gives another number each time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None
        self.seconds = 0.0

    async def find(self) -> int:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        if self.failure:
            raise self.failure
        return self.asked


def test_value_is_kept_for_its_time_and_no_longer() -> None:
    async def run() -> list[int]:
        kept, source, found = Kept[int](seconds=10), Source(), []
        for pause in (0.0, 7.0, 4.0):
            await asyncio.sleep(pause)
            found.append(await kept.get("a", source.find))
        return found

    assert virtualtime.run(run) == [1, 1, 2]


def test_ageing_value_is_replaced_by_one_while_the_others_still_get_it() -> None:
    async def run() -> tuple[list[int], list[float]]:
        kept, source = Kept[int](seconds=10), Source()
        await kept.get("a", source.find)
        await asyncio.sleep(8)
        source.seconds = 1.0
        waits: list[float] = []

        async def ask() -> int:
            began = asyncio.get_running_loop().time()
            value = await kept.get("a", source.find)
            waits.append(asyncio.get_running_loop().time() - began)
            return value

        return sorted(await asyncio.gather(*(ask() for _ in range(5)))), waits

    found, waits = virtualtime.run(run)

    assert found == [1, 1, 1, 1, 2]
    assert sorted(waits) == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_value_that_cannot_be_replaced_counts_for_its_time_and_no_longer() -> None:
    async def run() -> list[int | str]:
        kept, source, found = Kept[int](seconds=10), Source(), list[int | str]()
        await kept.get("a", source.find)
        source.failure = TransientError("not now")
        for pause in (8.0, 1.0, 2.0):
            await asyncio.sleep(pause)
            try:
                found.append(await kept.get("a", source.find))
            except TransientError as exc:
                found.append(str(exc))
        return found

    assert virtualtime.run(run) == [1, 1, "not now"]


def test_value_that_ends_while_it_is_being_replaced_is_not_given() -> None:
    async def run() -> int:
        kept, source = Kept[int](seconds=10), Source()
        await kept.get("a", source.find)
        await asyncio.sleep(9)
        source.seconds, source.failure = 2.0, TransientError("not now")
        return await kept.get("a", source.find)

    with pytest.raises(TransientError, match="not now"):
        virtualtime.run(run)


async def test_who_asks_at_once_gets_one_answer() -> None:
    kept, source = Kept[int](seconds=10), Source()

    found = await asyncio.gather(*(kept.get("a", source.find) for _ in range(50)))

    assert set(found) == {1}


async def test_failure_is_not_kept() -> None:
    kept, source = Kept[int](seconds=10), Source()
    source.failure = ValueError("not now")
    with pytest.raises(ValueError, match="not now"):
        await kept.get("a", source.find)
    source.failure = None

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
