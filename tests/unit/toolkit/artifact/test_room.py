"""A namespace keeps so much and no more, and what is counted survives a restart."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from tests.fakes.bucketobjects import MemoryBucket
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.cache import Cache
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.quota import QuotaError
from toolkit.artifact.room import Limited, Room, of
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner, Store
from toolkit.errors import TransientError

A, B = "gitrepository/apps/web/1.tar.gz", "bucket/apps/data/1.tar.gz"
IGNORE = Ignore.from_rules(None)


class Medium:
    """What lies on a medium, and how often it was measured."""

    def __init__(self, files: Mapping[str, int] | None = None) -> None:
        self.files = dict(files or {})
        self.measured = 0

    async def sizes(self) -> Mapping[str, int]:
        self.measured += 1
        return dict(self.files)


def take(room: Room, path: str, size: int) -> None:
    with room.taken(path, size):
        pass


def gauge(namespace: str) -> float | None:
    return REGISTRY.get_sample_value("penstock_artifact_stored_bytes", {"namespace": namespace})


async def test_what_fails_to_be_stored_fails_and_takes_no_room() -> None:
    room = Limited(100)
    await room.ready(Medium().sizes)

    with pytest.raises(OSError, match="the disk"), room.taken(A, 100):
        raise OSError("the disk is gone")
    take(room, B, 100)


async def test_kinds_of_a_namespace_share_its_room_and_others_have_their_own() -> None:
    room = Limited(100)
    await room.ready(Medium({A: 60}).sizes)

    with pytest.raises(QuotaError) as refused:
        take(room, B, 41)
    take(room, B, 40)
    take(room, "gitrepository/other/web/1.tar.gz", 100)

    assert refused.value.reason == "StorageQuotaExceeded"
    for word in ("namespace 'apps'", f"'{B}'", "--storage-namespace-quota", "delete sources"):
        assert word in str(refused.value)
    assert gauge("apps") == 100


async def test_refusals_are_counted_by_namespace() -> None:
    room, labels = Limited(1), {"namespace": "counted"}

    for _ in range(2):
        with pytest.raises(QuotaError):
            take(room, "bucket/counted/b/1.tar.gz", 2)

    assert REGISTRY.get_sample_value("penstock_artifact_quota_refusals_total", labels) == 2


async def test_message_tells_sizes_in_mebibytes() -> None:
    room = Limited(2 << 20)
    await room.ready(Medium({A: 3 << 19}).sizes)

    with pytest.raises(QuotaError, match=r"take 1\.5 of 2 MiB, and '.*' would have 1\.2"):
        take(room, B, 5 << 18)


async def test_what_fails_to_be_stored_takes_no_room() -> None:
    room = Limited(100)

    with contextlib.suppress(OSError), room.taken(A, 100):
        raise OSError

    take(room, B, 100)


async def test_what_goes_makes_room() -> None:
    room = Limited(100)
    take(room, A, 60)
    take(room, B, 40)

    room.freed(A)
    room.freed("bucket/apps/data")  # an owner with all it has
    room.freed(A, "bucket/apps/unknown")

    take(room, A, 100)
    room.freed(A)
    assert gauge("apps") is None


async def test_replacing_counts_the_difference_and_smaller_is_always_possible() -> None:
    room = Limited(100)
    await room.ready(Medium({A: 150}).sizes)

    take(room, A, 120)
    with pytest.raises(QuotaError):
        take(room, A, 121)
    take(room, A, 90)
    take(room, B, 10)


async def test_many_writes_cost_one_measurement() -> None:
    clock, medium = [0.0], Medium()
    room = Limited(1000, now=lambda: clock[0])

    for number in range(100):
        await room.ready(medium.sizes)
        take(room, f"bucket/apps/b{number}/1.tar.gz", 10)
    once = medium.measured
    clock[0] = 601.0
    await room.ready(medium.sizes)

    assert (once, medium.measured) == (1, 2)
    take(room, A, 1000)  # another replica deleted everything


async def test_what_comes_and_goes_while_it_is_measured_counts() -> None:
    room, started, go_on = Limited(100), asyncio.Event(), asyncio.Event()

    async def slow() -> Mapping[str, int]:
        started.set()
        await go_on.wait()
        return {B: 70}  # as it was, without what came since

    with room.taken(A, 60):
        measuring = asyncio.ensure_future(room.ready(slow))
        await started.wait()
        room.freed(B)
    go_on.set()
    await measuring

    with pytest.raises(QuotaError):
        take(room, B, 41)
    take(room, B, 40)


async def test_medium_that_does_not_answer_is_asked_again() -> None:
    room, medium = Limited(100), Medium({A: 100})

    async def broken() -> Mapping[str, int]:
        raise TransientError("no answer")

    with pytest.raises(TransientError):
        await room.ready(broken)
    await room.ready(medium.sizes)

    with pytest.raises(QuotaError):
        take(room, B, 1)


CHART = "helmchart/platform/team-app/1.tgz"
OWNER = "helmchart/platform/team-app"


async def test_what_was_made_for_another_namespace_takes_room_there() -> None:
    room = Limited(100)
    await room.ready(Medium().sizes)

    assert room.charge(OWNER, "team")
    assert not room.charge(OWNER, "team")
    take(room, CHART, 60)
    with pytest.raises(QuotaError, match="namespace 'team' take"):
        take(room, "gitrepository/team/web/1.tar.gz", 41)
    take(room, "gitrepository/platform/web/1.tar.gz", 100)

    assert (gauge("team"), gauge("platform")) == (60, 100)


async def test_what_an_owner_has_moves_with_the_charge() -> None:
    room = Limited(100)
    await room.ready(Medium({CHART: 80}).sizes)

    with pytest.raises(QuotaError):
        take(room, "gitrepository/platform/web/1.tar.gz", 100)
    room.charge(OWNER, "team")
    take(room, "gitrepository/platform/web/1.tar.gz", 100)
    room.charge(OWNER, "platform")

    assert (gauge("team"), gauge("platform")) == (None, 180)


async def test_charge_is_measured_and_goes_with_the_owner() -> None:
    room = Limited(100)
    await room.ready(Medium({f"{OWNER}/.charged-team": 0, CHART: 80}).sizes)

    assert room.charged(OWNER) == "team"
    assert gauge("team") == 80
    room.freed(OWNER)

    assert room.charged(OWNER) == "platform"
    assert gauge("team") is None


async def test_charge_that_a_killed_process_left_half_written_is_none() -> None:
    room = Limited(100)
    marks = {f"{OWNER}/.charged-team": 0, f"{OWNER}/.charged-other": 0}

    await room.ready(Medium({CHART: 80, **marks}).sizes)

    assert room.charged(OWNER) == "platform"
    assert room.charge(OWNER, "team")


async def test_charge_while_it_is_measured_counts() -> None:
    room, started, go_on = Limited(100), asyncio.Event(), asyncio.Event()

    async def slow() -> Mapping[str, int]:
        started.set()
        await go_on.wait()
        return {CHART: 70}

    measuring = asyncio.ensure_future(room.ready(slow))
    await started.wait()
    room.charge(OWNER, "team")
    go_on.set()
    await measuring

    assert room.charged(OWNER) == "team"
    take(room, "gitrepository/platform/web/1.tar.gz", 100)


async def test_no_limit_measures_nothing() -> None:
    room, medium = of(0), Medium()

    await room.ready(medium.sizes)
    take(room, A, 1 << 50)

    assert not room.charge(OWNER, "team")
    assert medium.measured == 0


class Media:
    """Stores on one medium, as processes that follow one another have them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bucket = MemoryBucket()
        self.started = 0

    async def local(self, room: Room) -> Store:
        return Storage(self.root / "root", advertised="a", retention_ttl=-1, room=room)

    async def in_bucket(self, room: Room) -> Store:
        self.started += 1
        disk = self.root / f"disk-{self.started}"
        cache = Cache(disk / "cache", idle_copies=10, idle_bytes=1 << 20)
        await cache.open()
        return BucketStorage(
            quick=self.bucket,
            bulk=self.bucket,
            prefix="fleet/",
            scratch=disk / "scratch",
            cache=cache,
            advertised="a",
            retention_ttl=-1,
            room=room,
            now=lambda: self.bucket.now,
        )


@pytest.mark.parametrize("medium", ["local", "in_bucket"])
async def test_stores_keep_to_it_across_restarts(tmp_path: Path, medium: str) -> None:
    media = Media(tmp_path)
    start = {"local": media.local, "in_bucket": media.in_bucket}[medium]
    file = tmp_path / "file"
    file.write_bytes(os.urandom(1000))

    async def keep(store: Store, name: str, filename: str) -> None:
        owner = Owner(kind="Bucket", namespace="kept", name=name)
        await store.store_file(owner, revision="1", filename=filename, file=file)

    first = await start(Limited(2500))
    await keep(first, "a", "1.tar.gz")
    await keep(first, "b", "1.tar.gz")
    with pytest.raises(QuotaError):
        await keep(first, "c", "1.tar.gz")
    await keep(first, "b", "1.tar.gz")  # the same again takes nothing
    second = await start(Limited(2500))
    with pytest.raises(QuotaError):
        await keep(second, "c", "1.tar.gz")
    owner = Owner(kind="Bucket", namespace="kept", name="c")
    refused = await second.usage("Bucket", "kept")
    await second.remove(Owner(kind="Bucket", namespace="kept", name="a"))
    await keep(second, "c", "1.tar.gz")

    assert owner not in {each for each, size in refused.items() if size}
    assert sum((await second.usage("Bucket", "kept")).values()) == 2000


@pytest.mark.parametrize("medium", ["local", "in_bucket"])
async def test_stores_remember_who_is_charged(tmp_path: Path, medium: str) -> None:
    media = Media(tmp_path)
    start = {"local": media.local, "in_bucket": media.in_bucket}[medium]
    file, chart = tmp_path / "file", Owner(kind="HelmChart", namespace="platform", name="team-app")
    file.write_bytes(os.urandom(1000))

    async def keep(store: Store, owner: Owner) -> None:
        await store.store_file(owner, revision="1", filename="1.tgz", file=file)

    first = await start(Limited(1500))
    await first.charge(chart, "team")
    await keep(first, chart)
    second = await start(Limited(1500))
    with pytest.raises(QuotaError, match="namespace 'team'"):
        await keep(second, Owner(kind="Bucket", namespace="team", name="b"))
    await keep(second, Owner(kind="Bucket", namespace="platform", name="b"))
    await second.charge(chart, "platform")
    third = await start(Limited(1500))
    with pytest.raises(QuotaError, match="namespace 'platform'"):
        await keep(third, Owner(kind="Bucket", namespace="platform", name="c"))
    await keep(third, Owner(kind="Bucket", namespace="team", name="b"))
    used = await third.usage("HelmChart")
    await third.remove(chart)

    assert used == {chart: 1000}
    assert await third.usage("HelmChart") == {}
    assert [each.file for each in await third.kept(chart)] == []


@pytest.mark.parametrize("medium", ["local", "in_bucket"])
async def test_charge_without_an_artifact_is_found_by_the_sweep(
    tmp_path: Path, medium: str
) -> None:
    media = Media(tmp_path)
    store = await {"local": media.local, "in_bucket": media.in_bucket}[medium](Limited(1500))
    chart = Owner(kind="HelmChart", namespace="platform", name="team-app")

    await store.charge(chart, "team")

    assert await store.usage("HelmChart") == {chart: 0}


@pytest.mark.parametrize("medium", ["local", "in_bucket"])
async def test_end_of_retention_makes_room(tmp_path: Path, medium: str) -> None:
    media = Media(tmp_path)
    store = await {"local": media.local, "in_bucket": media.in_bucket}[medium](Limited(3500))
    file, owner = tmp_path / "file", Owner(kind="Bucket", namespace="kept", name="a")

    for number in range(3):
        file.write_bytes(os.urandom(1000))
        media.bucket.now += 10
        await store.store_file(owner, revision="1", filename=f"{number}.tar.gz", file=file)
    with pytest.raises(QuotaError):
        await store.store_file(owner, revision="1", filename="4.tar.gz", file=file)
    await store.collect(owner, current=None)

    await store.store_file(owner, revision="1", filename="4.tar.gz", file=file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_directory_that_is_not_ours_to_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "root" / "lost+found").mkdir(parents=True, mode=0)
    file = tmp_path / "file"
    file.write_bytes(b"x")
    store = Storage(tmp_path / "root", advertised="a", room=Limited(100))

    owner = Owner(kind="Bucket", namespace="kept", name="a")
    stored = await store.store_file(owner, revision="1", filename="1.tar.gz", file=file)

    assert stored.size == 1
