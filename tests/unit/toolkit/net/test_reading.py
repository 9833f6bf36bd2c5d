"""Bodies: what has come counts, and who keeps others waiting gives way."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fakes import virtualtime
from toolkit.net import reading
from toolkit.net.reading import Budget, NoRoomError, TooLargeError

FAR = 1000.0
BIG = b"x" * 6


async def sent(*parts: bytes, end: bool = True) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if not end:
        await asyncio.sleep(FAR)


async def held(
    budget: Budget,
    parts: AsyncIterator[bytes],
    until: asyncio.Event | None = None,
    *,
    flow: str = "",
) -> bytes:
    async with budget.read(parts, announced=None, deadline=FAR, flow=flow) as body:
        if until is not None:
            await until.wait()
        return body.data


async def whole(budget: Budget, *parts: bytes, flow: str = "") -> bytes:
    return await held(budget, sent(*parts), flow=flow)


async def coming(budget: Budget, *parts: bytes, flow: str = "") -> asyncio.Task[bytes]:
    """Return a body that has come so far, and does not go on."""
    task = asyncio.create_task(held(budget, sent(*parts, end=False), flow=flow))
    await asyncio.sleep(0)
    return task


def budget(*, total: int = 10, each: int = 8, seconds: float = 100) -> Budget:
    return Budget(total=total, each=each, seconds=seconds)


def test_a_body_is_what_was_sent() -> None:
    assert virtualtime.run(lambda: whole(budget(), b"ab", b"", b"c")) == b"abc"


def test_what_is_announced_counts_for_nothing_but_its_size() -> None:
    async def scenario() -> None:
        ours = budget()
        for announced in (8, 8, 8):
            reader = ours.read(sent(b"x", end=False), announced=announced, deadline=FAR)
            task = asyncio.create_task(reader.__aenter__())
            await asyncio.sleep(0)
            assert not task.done()
        with pytest.raises(TooLargeError, match="more than"):
            await ours.read(sent(), announced=9, deadline=FAR).__aenter__()

        assert await whole(ours, BIG) == BIG

    virtualtime.run(scenario)


def test_a_body_is_bounded_by_what_comes() -> None:
    with pytest.raises(TooLargeError, match="more than"):
        virtualtime.run(lambda: whole(budget(), b"12345", b"6789"))


def test_who_is_slow_gives_way_to_who_is_not() -> None:
    async def scenario() -> None:
        ours = budget()
        slow = await coming(ours, BIG)
        await asyncio.sleep(reading.GRACE)

        assert await whole(ours, BIG) == BIG
        with pytest.raises(TimeoutError):
            await slow
        assert await whole(ours, b"1234567") == b"1234567"
        assert await whole(ours, BIG) == BIG

    virtualtime.run(scenario)


def test_who_has_just_begun_does_not_give_way() -> None:
    async def scenario() -> None:
        ours = budget()
        other = await coming(ours, BIG)

        with pytest.raises(NoRoomError, match="too many bytes"):
            await whole(ours, BIG)

        assert not other.done()
        other.cancel()

    virtualtime.run(scenario)


def test_a_body_that_is_reviewed_stays() -> None:
    async def scenario() -> None:
        ours, answered = budget(), asyncio.Event()
        reviewed = asyncio.create_task(held(ours, sent(BIG), answered))
        await asyncio.sleep(2 * reading.GRACE)

        with pytest.raises(NoRoomError, match="too many bytes"):
            await whole(ours, BIG)

        answered.set()
        assert await reviewed == BIG
        assert await whole(ours, BIG) == BIG

    virtualtime.run(scenario)


@pytest.mark.parametrize(("seconds", "deadline"), [(5.0, FAR), (FAR, 5.0)])
def test_a_body_that_does_not_come_is_given_up(seconds: float, deadline: float) -> None:
    async def scenario() -> None:
        ours = budget(seconds=seconds)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            async with ours.read(sent(BIG, end=False), announced=None, deadline=began + deadline):
                raise AssertionError
        assert asyncio.get_running_loop().time() == began + 5
        assert await whole(ours, BIG) == BIG

    virtualtime.run(scenario)


def test_one_that_is_too_slow_for_itself_gives_itself_up() -> None:
    async def trickle() -> AsyncIterator[bytes]:
        yield b"12345"
        await asyncio.sleep(reading.GRACE)
        yield b"6"

    async def scenario() -> None:
        ours, answered = budget(), asyncio.Event()
        slow = asyncio.create_task(held(ours, trickle()))
        await asyncio.sleep(0)
        reviewed = asyncio.create_task(held(ours, sent(b"12345"), answered))

        with pytest.raises(TimeoutError):
            await slow
        answered.set()
        assert await reviewed == b"12345"

    virtualtime.run(scenario)


def test_the_flow_that_holds_most_gives_way() -> None:
    async def scenario() -> None:
        ours = budget(total=16)
        little = await coming(ours, b"12", flow="a")
        much = [await coming(ours, b"1234", flow="b") for _ in range(2)]
        await coming(ours, b"1", flow="c")
        await asyncio.sleep(reading.GRACE)

        assert await whole(ours, b"12345", b"6", flow="d") == b"123456"
        with pytest.raises(TimeoutError):
            await much[0]
        assert [each.done() for each in (little, much[1])] == [False, False]
        little.cancel()
        much[1].cancel()

    virtualtime.run(scenario)


def test_a_flow_leaves_room_for_others() -> None:
    async def scenario() -> None:
        ours, answered = budget(total=16), asyncio.Event()
        many = [
            asyncio.create_task(held(ours, sent(b"1234"), answered, flow="a")) for _ in range(4)
        ]
        await asyncio.sleep(2 * reading.GRACE)

        assert [each.done() for each in many] == [False, False, False, True]
        with pytest.raises(NoRoomError, match="too many bytes"):
            await many[3]
        assert await whole(ours, b"123", flow="b") == b"123"
        answered.set()
        assert await asyncio.gather(*many[:3]) == [b"1234"] * 3
        assert await whole(ours, BIG, flow="a") == BIG

    virtualtime.run(scenario)


def test_a_flow_that_is_slow_drops_its_own() -> None:
    async def scenario() -> None:
        ours = budget(total=16)
        other = await coming(ours, b"1", flow="b")
        slow = [await coming(ours, b"1234", flow="a") for _ in range(2)]
        await asyncio.sleep(reading.GRACE)

        assert await whole(ours, BIG, flow="a") == BIG
        with pytest.raises(TimeoutError):
            await slow[0]
        assert [each.done() for each in (other, slow[1])] == [False, False]
        other.cancel()
        slow[1].cancel()

    virtualtime.run(scenario)


def test_a_flow_is_known_from_the_content() -> None:
    async def scenario() -> None:
        ours = budget(total=14)

        async def decoded(flow: str, until: asyncio.Event) -> None:
            async with ours.read(sent(b"123456"), announced=None, deadline=FAR) as body:
                body.belong(flow)
                await until.wait()

        answered = asyncio.Event()
        first = asyncio.create_task(decoded("a", answered))
        await asyncio.sleep(0)
        with pytest.raises(NoRoomError, match="of 'a' are held already"):
            await decoded("a", answered)
        second = asyncio.create_task(decoded("b", answered))
        await asyncio.sleep(0)
        assert not second.done()
        answered.set()
        await asyncio.gather(first, second)
        await decoded("a", answered)

    virtualtime.run(scenario)
