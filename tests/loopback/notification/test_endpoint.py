"""The table of failures of those who post events: what is kept, refused, and held in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from controllers.notification.events import endpoint
from controllers.notification.events.duplicates import Duplicates
from controllers.notification.events.event import MOST_BYTES
from controllers.notification.events.intake import Alerts, Intake
from controllers.notification.events.matching import Notice
from controllers.notification.events.spool import MOST, Spool
from crds.notification import Alert
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.fulldisk import files_at_most
from tests.fakes.granting import grant
from tests.fakes.serving import serving
from tests.fakes.strangers import Stranger
from toolkit.forwarding import AT_ONCE
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey
from toolkit.policy.references import References

LIMIT = 256 << 20
SLACK = ObjectKey("apps", "slack")
ALL = {"kind": "Kustomization", "name": "*"}


class Written:
    """Alerts that are there."""

    def __init__(self, *sources: Any, **spec: Any) -> None:
        self._alert = msgspec.convert(
            {
                "metadata": {"name": "all", "namespace": "apps"},
                "spec": {
                    "providerRef": {"name": "slack"},
                    "eventSources": list(sources) or [ALL],
                    **spec,
                },
            },
            Alert,
        )

    def subscribe(self, handler: Callable[[Change[Alert]], None]) -> None:
        """Tell of the Alert."""
        handler(Change(type="ADDED", key=ObjectKey("apps", "all"), old=None, new=self._alert))


class Running:
    """The endpoint, and the spool behind it."""

    def __init__(
        self,
        port: int,
        spool: Spool,
        woken: list[ObjectKey],
        api: FakeApiServer,
        intake: Intake,
    ) -> None:
        self.port, self.spool, self.woken, self.api = port, spool, woken, api
        self.intake = intake

    async def kept(self) -> list[Notice]:
        """Return what is to be sent."""
        found = await self.spool.next(SLACK, 10_000)
        return [msgspec.json.decode(each.notice, type=Notice) for each in found]

    async def post(self, body: Any, **headers: str) -> tuple[int, str]:
        """Post a body; return the status and the text."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{self.port}/", data=body, headers=headers) as response,
        ):
            return response.status, await response.text()


@asynccontextmanager
async def running(
    directory: Path, alerts: Written | None = None, policy: References | None = None
) -> AsyncIterator[Running]:
    """Serve the endpoint with one Alert."""
    spool = Spool(directory, limit=LIMIT)
    await spool.open()
    woken: list[ObjectKey] = []
    server = FakeApiServer()
    server.put("gitrepositories", "shop", "apps", metadata={"labels": {"team": "web"}})
    async with server.running() as client:
        intake = Intake(
            client=client,
            alerts=Alerts(alerts or Written()),
            policy=policy or References(grants=lambda _: ()),
            spool=spool,
            duplicates=Duplicates(300),
        )
        async with serving(endpoint.application(intake, woken.append)) as port:
            yield Running(port, spool, woken, server, intake)
    await spool.close()


def event(number: int = 1, *, name: str = "shop", namespace: str = "apps", **more: Any) -> bytes:
    return msgspec.json.encode(
        {
            "involvedObject": {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "namespace": namespace,
                "name": name,
            },
            "severity": "info",
            "timestamp": "2026-11-25T16:00:00Z",
            "message": str(number),
            "reason": "ReconciliationSucceeded",
            "reportingController": "kustomize-controller",
            **more,
        }
    )


async def test_what_an_alert_wants_is_on_disk_before_the_answer(tmp_path: Path) -> None:
    secret = event(message="cloning https://me:hunter2@git.example.com failed")
    async with running(tmp_path) as here:
        status, _ = await here.post(secret)
        again, why = await here.post(secret)
        (kept,) = await here.kept()

    assert (status, again) == (202, 429)
    assert "duplicate" in why
    assert here.woken == [SLACK]
    assert kept.event.message == "cloning https://*****@git.example.com failed"


def several(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


async def test_several_events_in_one_request_are_answered_one_by_one(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        status, text = await here.post(several(event(1), event(2), event(1)))
        kept = await here.kept()

    assert (status, msgspec.json.decode(text)) == (207, [202, 202, 429])
    assert [each.event.message for each in kept] == ["1", "2"]
    assert here.woken == [SLACK, SLACK]


async def test_of_several_events_those_that_cannot_be_kept_may_come_again(tmp_path: Path) -> None:
    body = several(event(1), event(2, namespace="elsewhere"))
    async with running(tmp_path) as here:
        with files_at_most(0):
            full = await here.post(body)
        later = await here.post(body)

    # nobody wants the second one, so nothing has to be kept of it
    assert (full[0], msgspec.json.decode(full[1])) == (207, [503, 202])
    assert (later[0], msgspec.json.decode(later[1])) == (207, [202, 429])


async def test_it_tells_how_many_events_it_takes_and_takes_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as here, aiohttp.ClientSession() as session:
        async with session.post(f"http://127.0.0.1:{here.port}/", data=event()) as response:
            most = int(response.headers[AT_ONCE])
        exactly, _ = await here.post(several(*map(event, range(most))))
        beyond, text = await here.post(several(*map(event, range(most + 1))))

    assert (exactly, beyond) == (207, 400)
    assert f"more than {most} events" in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not an event"),
        (several(event(), b"{}"), "not an event"),
        (several(event(), event(namespace="")), "must be set"),
        (b"{}", "not an event"),
        (b"[" * 100_000, "not an event"),
        (b'{"involvedObject":' * 50_000, "not an event"),
        (event(severity="fatal"), "not an event"),
        (event(namespace=""), "must be set"),
    ],
)
async def test_what_is_no_event_is_refused(tmp_path: Path, body: bytes, why: str) -> None:
    async with running(tmp_path) as here:
        status, text = await here.post(body)

        assert (status, await here.kept()) == (400, [])

    assert why in text


async def chunks(total: int) -> AsyncIterator[bytes]:
    for _ in range(total >> 16):
        yield bytes(1 << 16)


async def test_an_event_of_5_mb_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        announced = await Stranger.open(here.port)
        await announced.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n")
        told = await announced.reader.readuntil(b"\r\n")
        await announced.close()
        streamed, text = await here.post(chunks(5_000_000))

    assert told.split()[1] == b"413"
    assert streamed == 413
    assert str(MOST_BYTES) in text


def test_slow_bodies_end_and_hold_up_no_other(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[bytes], float]:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"
        async with running(tmp_path) as here:
            slow = [await Stranger.open(here.port) for _ in range(40)]
            for each in slow:
                await each.send(head)
            await virtualtime.settle()
            status, _ = await here.post(event())
            when = asyncio.get_running_loop().time()
            told = [await each.reader.readuntil(b"\r\n") for each in slow[:16]]
            for each in slow:
                await each.close()
            return status, told, when

    status, told, when = virtualtime.run(main)

    assert (status, when < 15) == (202, True)
    assert {each.split()[1] for each in told} == {b"408"}


async def test_an_event_that_cannot_be_kept_may_come_again(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        with files_at_most(0):
            full, text = await here.post(event())
        later, _ = await here.post(event())

        assert [each.event.message for each in await here.kept()] == ["1"]

    assert (full, later) == (503, 202)
    assert "cannot be kept now" in text
    assert str(tmp_path) not in text


async def test_a_replica_that_stops_takes_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        here.intake.close()
        status, _ = await here.post(event())

        assert (status, await here.kept()) == (503, [])


async def test_labels_are_asked_for_and_asked_for_again(tmp_path: Path) -> None:
    wanted = Written({"kind": "GitRepository", "name": "*", "matchLabels": {"team": "web"}})
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository"}
    about = {**source, "namespace": "apps", "name": "shop"}
    async with running(tmp_path, wanted) as here:
        here.api.fail("GET", "gitrepositories/shop", 403, times=9)
        failed, _ = await here.post(event(involvedObject=about))
        here.api.failures.clear()
        later, _ = await here.post(event(involvedObject=about))
        other, _ = await here.post(event(involvedObject={**about, "name": "gone"}))

        assert len(await here.kept()) == 1

    assert (failed, later, other) == (503, 202, 202)


async def test_ten_thousand_events_leave_the_newest_of_each_object(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        turns = asyncio.Semaphore(32)

        async with aiohttp.ClientSession() as session:

            async def post(number: int) -> int:
                body = event(number, name=f"app-{number % 400}")
                async with turns, session.post(f"http://127.0.0.1:{here.port}/", data=body) as r:
                    return r.status

            answers = [
                each
                for start in range(0, 10_000, 400)
                for each in await asyncio.gather(*(post(start + n) for n in range(400)))
            ]
        waiting = here.spool.waiting(SLACK)
        messages = {int(each.event.message) for each in await here.kept()}

    assert set(answers) == {202}
    assert waiting <= MOST
    assert set(range(9_600, 10_000)) <= messages


async def test_an_alert_whose_patterns_take_too_long_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RE2 takes 40 ms for each of the first patterns, and nobody else has a turn meanwhile."""
    slow = [f"(a|aa){{300}}{number}$" for number in range(200)]
    async with running(tmp_path, Written(inclusionList=[*slow, "a"])) as here:
        status, _ = await here.post(event(message="a" * 4_000))

        assert (status, await here.kept()) == (202, [])

    (told,) = [each for each in caplog.records if "take too long" in each.message]
    assert told.__dict__["namespace"] == "apps"


async def test_an_alert_adds_no_more_metadata_than_an_event_has(tmp_path: Path) -> None:
    added = {f"key-{number}": "x" * 5_000 for number in range(100)}
    async with running(tmp_path, Written(eventMetadata=added)) as here:
        await here.post(event())
        (kept,) = await here.kept()

    assert len(kept.metadata) == 64
    assert {len(value) for value in kept.metadata.values()} == {2_048}


@pytest.mark.parametrize("name", ["*", "shop"])
async def test_another_teams_events_take_their_grant(tmp_path: Path, name: str) -> None:
    wanted = Written({"kind": "Kustomization", "name": name, "namespace": "team-a"})
    group = "notification.toolkit.fluxcd.io"
    given = grant(
        "team-a",
        of={"group": group, "kind": "Alert", "namespace": "apps"},
        to={"group": "kustomize.toolkit.fluxcd.io", "kind": "Kustomization", "name": "shop"},
    )
    theirs = event(namespace="team-a")
    async with running(tmp_path / "without", wanted) as here:
        without = await here.post(theirs)
        nothing = await here.kept()
    async with running(tmp_path / "with", wanted, References(grants=lambda _: (given,))) as here:
        granted = await here.post(theirs)
        something = await here.kept()

    assert (without[0], granted[0]) == (202, 202)
    assert nothing == []
    # a grant of one object does not cover all of them
    assert len(something) == (1 if name == "shop" else 0)
