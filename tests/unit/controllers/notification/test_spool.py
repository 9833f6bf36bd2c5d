"""Deliveries survive the process, and their number is bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.notification.events import spool
from controllers.notification.events.spool import Delivery, Spool
from toolkit.errors import TransientError
from toolkit.objects import ObjectKey

LIMIT = 256 << 20
SLACK, TEAMS = ObjectKey("apps", "slack"), ObjectKey("apps", "teams")


def delivery(number: int, *, about: str = "", provider: ObjectKey = SLACK) -> Delivery:
    return Delivery(
        provider=provider, object=about or str(number), since=0.0, notice=str(number).encode()
    )


def run(
    directory: Path, *steps: Callable[[Spool], Awaitable[object]], limit: int = LIMIT
) -> list[object]:
    """Run each step in a process of its own, as far as the spool can tell."""

    async def main() -> list[object]:
        results = []
        for step in steps:
            opened = Spool(directory, limit=limit)
            await opened.open()
            results.append(await step(opened))
            await opened.close()
        return results

    return asyncio.run(main())


async def notices(opened: Spool, provider: ObjectKey = SLACK) -> list[int]:
    return [int(each.notice) for each in await opened.next(provider, 10_000)]


def test_what_was_added_is_there_after_a_restart_in_its_order(tmp_path: Path) -> None:
    _, found, key, again = run(
        tmp_path,
        lambda s: s.add([delivery(1), delivery(2), delivery(3, provider=TEAMS)]),
        notices,
        lambda s: s.next(SLACK, 1),
        lambda s: s.next(SLACK, 1),
    )

    assert found == [1, 2]
    assert key == again


def test_what_was_delivered_is_gone(tmp_path: Path) -> None:
    async def deliver(opened: Spool) -> None:
        (first,) = await opened.next(SLACK, 1)
        await opened.remove(SLACK, [first.id])

    _, _, found, waiting = run(
        tmp_path,
        lambda s: s.add([delivery(1), delivery(2)]),
        deliver,
        notices,
        lambda s: asyncio.sleep(0, s.waiting(SLACK)),
    )

    assert (found, waiting) == ([2], 1)


def test_the_newest_of_each_object_stays_when_there_are_too_many(tmp_path: Path) -> None:
    flood = [delivery(number, about=f"object-{number % 10}") for number in range(10_000)]
    _, found, other = run(
        tmp_path,
        lambda s: s.add([delivery(-1, about="quiet"), delivery(0, provider=TEAMS), *flood]),
        notices,
        lambda s: notices(s, TEAMS),
    )

    assert isinstance(found, list)
    assert len(found) <= spool.MOST
    assert {*range(9_990, 10_000), -1} <= set(found)
    assert other == [0]


def test_each_of_many_objects_is_told_of(tmp_path: Path) -> None:
    first = [delivery(number, about=f"object-{number}") for number in range(spool.MOST + 500)]
    second = [delivery(number + 5000, about=f"object-{number}") for number in range(spool.MOST)]
    _, _, found = run(tmp_path, lambda s: s.add(first), lambda s: s.add(second), notices)

    assert isinstance(found, list)
    assert {*range(5000, 5000 + spool.MOST), *range(spool.MOST, spool.MOST + 500)} <= set(found)


def test_the_oldest_go_where_objects_are_too_many(tmp_path: Path) -> None:
    _, found = run(
        tmp_path,
        lambda s: s.add([delivery(number) for number in range(spool.MOST_OBJECTS + 50)]),
        notices,
    )

    assert isinstance(found, list)
    assert len(found) <= spool.MOST_OBJECTS
    assert found[-1] == spool.MOST_OBJECTS + 49


def test_large_notices_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    large = [
        Delivery(provider=SLACK, object=str(number), since=0.0, notice=bytes(1 << 20))
        for number in range(20)
    ]
    _, again, at_once, small = run(
        tmp_path,
        lambda s: s.add(large),
        lambda s: asyncio.sleep(0, s.waiting(SLACK)),
        lambda s: s.next(SLACK, 64),
        lambda s: s.remove(SLACK, range(1, 100)),
    )

    assert isinstance(again, int)
    assert isinstance(at_once, list)
    assert again <= spool.MOST_BYTES >> 20
    assert len(at_once) == 2
    assert small is None


def test_two_processes_never_share_a_file(tmp_path: Path) -> None:
    async def main() -> list[int]:
        first, second = Spool(tmp_path, limit=LIMIT), Spool(tmp_path, limit=LIMIT)
        await first.open()
        await second.open()
        await first.add([delivery(1)])
        found = await notices(second)
        await second.close()
        await first.close()
        return found

    assert asyncio.run(main()) == []


def test_no_more_replicas_share_a_directory_than_there_are_files(tmp_path: Path) -> None:
    async def main() -> None:
        opened = []
        for _ in range(16):
            opened.append(Spool(tmp_path, limit=LIMIT))
            await opened[-1].open()
        with pytest.raises(TransientError, match="every file of the spool is in use"):
            await Spool(tmp_path, limit=LIMIT).open()
        for each in opened:
            await each.close()

    asyncio.run(main())


def test_a_spool_is_opened_before_it_is_used(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        asyncio.run(Spool(tmp_path, limit=LIMIT).next(SLACK, 1))


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TransientError, match="free space"):
        run(tmp_path / "file", notices)


def test_adding_at_once_is_one_commit(tmp_path: Path) -> None:
    async def main(opened: Spool) -> int:
        await asyncio.gather(*(opened.add([delivery(number)]) for number in range(100)))
        return opened.waiting(SLACK)

    assert run(tmp_path, main) == [100]


def test_who_floods_displaces_what_is_their_own(tmp_path: Path) -> None:
    """A tenant may make a great many Providers, each within its own limit."""
    limit = 1 << 20
    quiet = [delivery(number, provider=SLACK) for number in range(20)]
    flood = [
        Delivery(
            provider=ObjectKey("team-a", f"p{number % 40}"),
            object=str(number),
            since=0.0,
            notice=bytes(4 << 10),
        )
        for number in range(1000)
    ]

    async def filled(opened: Spool) -> int:
        return sum(opened.waiting(key) for key in opened.providers())

    _, _, found, kept, again = run(
        tmp_path,
        lambda s: s.add(quiet),
        lambda s: s.add(flood),
        notices,
        filled,
        filled,
        limit=limit,
    )

    assert found == list(range(20))
    assert isinstance(kept, int)
    assert 20 < kept < 20 + limit // (4 << 10)
    assert again == kept
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 16 * limit


def test_what_is_larger_than_the_file_may_be_is_refused(tmp_path: Path) -> None:
    async def main(opened: Spool) -> int:
        huge = Delivery(provider=SLACK, object="a", since=0.0, notice=bytes(1 << 20))
        with pytest.raises(TransientError, match="free space"):
            await opened.add([huge])
        await opened.add([delivery(1)])
        return opened.waiting(SLACK)

    assert run(tmp_path, main, limit=256 << 10) == [1]


def test_the_newest_are_given_in_their_order(tmp_path: Path) -> None:
    async def main(opened: Spool) -> list[bytes]:
        await opened.add([delivery(number) for number in range(100)])
        return [each.notice for each in await opened.newest(SLACK, 3)]

    (found,) = run(tmp_path, main)

    assert found == [b"98", b"99"]


def test_a_key_that_a_delivery_has_stays(tmp_path: Path) -> None:
    async def main(opened: Spool) -> list[str]:
        await opened.add([replace(delivery(1), key="given"), delivery(2)])
        return [each.key for each in await opened.next(SLACK, 2)]

    (keys,) = run(tmp_path, main)

    assert isinstance(keys, list)
    assert keys[0] == "given"
    assert len(keys[1]) == 32
