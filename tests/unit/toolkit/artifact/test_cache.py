"""One copy a digest: made once, shared, kept while used, removed when there are too many."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolkit.artifact.cache import CONTENT, Cache
from toolkit.errors import TransientError


class Maker:
    """Fills directories, when it is allowed to, and counts."""

    def __init__(self, *, size: int = 10) -> None:
        self.made = 0
        self.running = 0
        self.size = size
        self.go = asyncio.Event()
        self.go.set()
        self.failing = False

    async def __call__(self, directory: Path) -> int:
        self.made += 1
        self.running += 1
        try:
            await self.go.wait()
            if self.failing:
                raise TransientError("no luck")
            (directory / CONTENT).mkdir()
            (directory / CONTENT / "a.yaml").write_text("a: 1\n")
        finally:
            self.running -= 1
        return self.size


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
async def cache(root: Path) -> AsyncIterator[Cache]:
    cache = Cache(root, idle_copies=2, idle_bytes=1000)
    await cache.open()
    yield cache
    await cache.close()


def copies(root: Path) -> int:
    return len(list(root.glob("*/*")))


def entries(root: Path) -> list[str]:
    return [path.name for path in root.iterdir()]


async def use(cache: Cache, key: str, make: Maker) -> Path:
    async with cache.use(key, make) as extracted:
        assert (extracted.path / "a.yaml").read_text() == "a: 1\n"
        return extracted.path


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_many_users_share_one_copy(cache: Cache) -> None:
    make = Maker()

    paths = await asyncio.gather(*(use(cache, "a", make) for _ in range(20)))

    assert len(set(paths)) == 1
    assert make.made == 1


async def test_the_copy_stays_for_the_next_user(cache: Cache) -> None:
    make = Maker()

    assert await use(cache, "a", make) == await use(cache, "a", make)
    assert make.made == 1


async def test_one_who_gives_up_does_not_disturb_the_others(cache: Cache) -> None:
    make = Maker()
    make.go.clear()
    users = [asyncio.create_task(use(cache, "a", make)) for _ in range(3)]
    await settle()

    users[0].cancel()
    await settle()
    make.go.set()

    assert isinstance((await asyncio.gather(*users, return_exceptions=True))[0], BaseException)
    assert await users[1] == await users[2]
    assert make.made == 1


async def test_when_all_give_up_the_work_stops_and_leaves_nothing(cache: Cache, root: Path) -> None:
    make = Maker()
    make.go.clear()
    users = [asyncio.create_task(use(cache, "a", make)) for _ in range(3)]
    await settle()

    for user in users:
        user.cancel()
    await asyncio.gather(*users, return_exceptions=True)

    assert make.running == 0
    assert copies(root) == 0


async def test_who_comes_after_all_gave_up_gets_a_copy(cache: Cache) -> None:
    make = Maker()
    make.go.clear()
    first = asyncio.create_task(use(cache, "a", make))
    await settle()

    first.cancel()
    await asyncio.sleep(0)
    second = asyncio.create_task(use(cache, "a", make))
    make.go.set()

    assert (await second).name == CONTENT
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_failure_reaches_all_who_waited_and_the_next_one_tries_anew(
    cache: Cache, root: Path
) -> None:
    make = Maker()
    make.failing = True
    make.go.clear()
    users = [asyncio.create_task(use(cache, "a", make)) for _ in range(3)]
    await settle()
    make.go.set()

    results = await asyncio.gather(*users, return_exceptions=True)
    make.failing = False

    assert [str(result) for result in results] == ["no luck"] * 3
    assert copies(root) == 0
    assert (await use(cache, "a", make)).exists()
    assert make.made == 2


async def test_the_copies_unused_longest_go_beyond_the_number(cache: Cache, root: Path) -> None:
    make = Maker()
    first = await use(cache, "a", make)
    second = await use(cache, "b", make)
    await use(cache, "a", make)

    await use(cache, "c", make)

    assert first.exists()
    assert not second.exists()
    assert copies(root) == 2


async def test_copies_go_beyond_the_bytes(cache: Cache) -> None:
    small, large = Maker(size=10), Maker(size=995)
    first = await use(cache, "a", small)

    second = await use(cache, "b", large)

    assert second.exists()
    assert not first.exists()


async def test_a_copy_in_use_stays_whatever_comes(cache: Cache) -> None:
    make = Maker()
    async with cache.use("a", make) as held:
        for key in "bcdef":
            await use(cache, key, make)

        assert (held.path / "a.yaml").exists()


async def test_closing_removes_everything(root: Path) -> None:
    cache = Cache(root, idle_copies=2, idle_bytes=1000)
    await cache.open()
    await use(cache, "a", Maker())

    await cache.close()

    assert entries(root) == []


async def test_closing_stops_what_is_being_made(root: Path) -> None:
    cache = Cache(root, idle_copies=2, idle_bytes=1000)
    await cache.open()
    make = Maker()
    make.go.clear()
    user = asyncio.create_task(use(cache, "a", make))
    await settle()

    await cache.close()

    assert make.running == 0
    with pytest.raises(asyncio.CancelledError):
        await user


async def test_what_a_dead_process_left_is_removed_and_what_a_live_one_has_is_not(
    cache: Cache, root: Path
) -> None:
    mine = await use(cache, "a", Maker())
    for name in ("dead", "alive"):
        (root / name / "copy").mkdir(parents=True)
        (root / f"{name}.lock").touch()
    alive = os.open(root / "alive.lock", os.O_RDWR)
    fcntl.flock(alive, fcntl.LOCK_EX)

    other = Cache(root, idle_copies=2, idle_bytes=1000)
    await other.open()
    await other.close()
    os.close(alive)

    assert mine.exists()
    assert (root / "alive").exists()
    assert not (root / "dead").exists()
    assert not (root / "dead.lock").exists()


async def test_ciphertext_is_looked_for_once(cache: Cache) -> None:
    async with cache.use("a", Maker()) as extracted:
        before = await extracted.encrypted()
        (extracted.path / "late.yaml").write_text("ENC[AES256_GCM,data:x]")

        assert before == await extracted.encrypted() == frozenset()


def test_a_cache_that_is_not_open_has_no_directory(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        _ = Cache(tmp_path, idle_copies=1, idle_bytes=1).own
