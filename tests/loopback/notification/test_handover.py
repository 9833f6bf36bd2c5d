"""A Pod that ends leaves its events to the next one, through the API server."""

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from controllers.notification.events import handover
from controllers.notification.events.handover import LABEL, Handover
from controllers.notification.events.spool import Delivery, Spool
from tests.fakes.apiserver import FakeApiServer
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.kube.secrets import CONFIG_MAP
from toolkit.objects import ObjectKey

NAMESPACE, LEASE = "penstock-system", "notification-controller"
SLACK, TEAMS = ObjectKey("apps", "slack"), ObjectKey("team-a", "teams")


def delivery(
    number: int, *, provider: ObjectKey = SLACK, since: float = 0.0, about: str = ""
) -> Delivery:
    return Delivery(
        provider=provider,
        object=about or str(number),
        since=since or float(number + 1),
        notice=msgspec.json.encode({"number": number}),
    )


class Pod:
    """A replica with a volume of its own."""

    def __init__(self, client: Client, spool: Spool) -> None:
        self.spool = spool
        self.woken: list[ObjectKey] = []
        self.handover = Handover(
            client, spool, wake=self.woken.append, lease=ObjectKey(NAMESPACE, LEASE), pause=0.01
        )

    async def found(self, provider: ObjectKey = SLACK) -> list[int]:
        """Return what is to be sent."""
        deliveries = await self.spool.next(provider, 10_000)
        return [msgspec.json.decode(each.notice)["number"] for each in deliveries]


@asynccontextmanager
async def pod(client: Client, directory: Path, *, leads: bool = True) -> AsyncIterator[Pod]:
    spool = Spool(directory, limit=256 << 20)
    await spool.open()
    made = Pod(client, spool)
    informer: Informer[bool] = Informer(
        client,
        CONFIG_MAP,
        decode=lambda _: True,
        namespace=NAMESPACE,
        label_selector=f"{LABEL}={LEASE}",
        metadata_only=True,
    )
    informer.subscribe(made.handover.saw)
    tasks = [asyncio.create_task(informer.run())]
    if leads:
        tasks.append(asyncio.create_task(made.handover.adopt()))
    await informer.wait_synced()
    yield made
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    await spool.close()


def left(server: FakeApiServer) -> int:
    return sum(plural == "configmaps" for plural, _, _ in server.objects)


async def test_another_pod_sends_what_one_leaves_with_the_same_keys(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with server.running() as client:
        async with pod(client, tmp_path / "a", leads=False) as old:
            await old.spool.add([delivery(n) for n in range(3)])
            await old.spool.add([delivery(7, provider=TEAMS)])
            keys = [each.key for each in await old.spool.next(SLACK, 9)]
            await old.handover.leave()
            waiting = old.spool.providers()
        async with pod(client, tmp_path / "b") as new:
            await until(lambda: len(new.woken) == 4)
            await until(lambda: left(server) == 0)
            again = [each.key for each in await new.spool.next(SLACK, 9)]

            assert (await new.found(), await new.found(TEAMS)) == ([0, 1, 2], [7])

    assert waiting == []
    assert again == keys


async def test_a_pod_that_runs_already_takes_over_too(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with (
        server.running() as client,
        pod(client, tmp_path / "a", leads=False) as old,
        pod(client, tmp_path / "b") as new,
    ):
        await old.spool.add([delivery(1)])
        await old.handover.leave()

        await until(lambda: new.woken == [SLACK])


async def test_no_old_state_is_told_after_a_newer_one(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with (
        server.running() as client,
        pod(client, tmp_path / "a", leads=False) as old,
        pod(client, tmp_path / "b", leads=False) as new,
    ):
        await old.spool.add([delivery(1, about="shop"), delivery(2, about="other")])
        await new.spool.add([delivery(3, about="shop")])
        (told,) = await new.spool.next(SLACK, 9)
        await new.spool.remove(SLACK, [told.id])
        await old.handover.leave()
        adopting = asyncio.create_task(new.handover.adopt())

        await until(lambda: left(server) == 0)

        assert await new.found() == [2]
        adopting.cancel()
        await asyncio.wait([adopting])


async def test_an_api_server_that_is_away_leaves_it_in_the_volume(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with server.running() as client, pod(client, tmp_path, leads=False) as old:
        await old.spool.add([delivery(1)])
        server.fail("POST", "configmaps", 403, times=9)

        await old.handover.leave()

        assert await old.found() == [1]


async def test_events_are_added_once_though_the_config_map_cannot_be_deleted(
    tmp_path: Path,
) -> None:
    server = FakeApiServer()
    async with server.running() as client, pod(client, tmp_path / "a", leads=False) as old:
        await old.spool.add([delivery(1)])
        await old.handover.leave()
        server.fail("DELETE", "configmaps", 403)
        async with pod(client, tmp_path / "b") as new:
            await until(lambda: left(server) == 0)

            assert await new.found() == [1]


async def test_who_has_much_leaves_room_for_others(tmp_path: Path) -> None:
    server = FakeApiServer()
    large = [replace(delivery(n), notice=b'"' + b"a" * (600 << 10) + b'"') for n in range(25)]
    async with server.running() as client, pod(client, tmp_path / "a", leads=False) as old:
        await old.spool.add(large)
        await old.spool.add([delivery(1, provider=TEAMS)])
        await old.handover.leave()
        async with pod(client, tmp_path / "b") as new:
            await until(lambda: left(server) == 0)

            assert await new.found(TEAMS) == [1]
            kept = await new.spool.newest(SLACK, 1 << 30)

    assert [each.object for each in kept] == [str(n) for n in range(25 - len(kept), 25)]
    assert len(kept) < handover.MOST_BYTES / 2 / (600 << 10) + 1


def bomb() -> str:
    """Return a delivery that can be read, before more than anybody should read."""
    left = [["apps", "slack", "bomb", 9.0, "key", {"number": 99}]]
    return base64.b64encode(zlib.compress(msgspec.json.encode(left) + b" " * (9 << 20))).decode()


async def test_what_cannot_be_read_holds_up_nothing(tmp_path: Path) -> None:
    server = FakeApiServer()
    labels = {LABEL: LEASE}
    for name, data in {
        "nothing": {},
        "junk": {"deliveries": "AAAA"},
        "no-base64": {"deliveries": "%"},
        "bomb": {"deliveries": bomb()},
    }.items():
        server.put("configmaps", name, NAMESPACE, metadata={"labels": labels}, binaryData=data)
    async with server.running() as client, pod(client, tmp_path / "a", leads=False) as old:
        await old.spool.add([delivery(1)])
        await old.handover.leave()
        async with pod(client, tmp_path / "b") as new:
            await until(lambda: left(server) == 0)

            assert await new.found() == [1]


async def test_what_is_no_part_of_it_stays(tmp_path: Path) -> None:
    server = FakeApiServer()
    server.put("configmaps", "of-a-shard", NAMESPACE, metadata={"labels": {LABEL: f"{LEASE}-1"}})
    server.put("configmaps", "mine", NAMESPACE)
    async with server.running() as client:
        async with pod(client, tmp_path / "a", leads=False) as old:
            await old.spool.add([delivery(1)])
            await old.handover.leave()
        async with pod(client, tmp_path / "b") as new:
            await until(lambda: new.woken)
            await until(lambda: left(server) == 2)
