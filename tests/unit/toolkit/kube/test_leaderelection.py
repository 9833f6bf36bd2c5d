"""One leader at a time, whatever happens to it."""

import asyncio
from typing import Any

import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.client import Client
from toolkit.kube.leaderelection import Elector, LeaseLostError, Timing


class Candidate:
    """A replica whose work is to note when it leads."""

    def __init__(self, client: Client, identity: str) -> None:
        self.elector = Elector(
            client, namespace="default", name="lease", identity=identity, timing=Timing()
        )
        self.leading = False
        self.since = 0.0
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self) -> None:
        self.since = asyncio.get_running_loop().time()
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def spec(server: FakeApiServer) -> dict[str, Any]:
    result: dict[str, Any] = server.objects[("leases", "default", "lease")]["spec"]
    return result


def test_the_first_candidate_leads_and_renews() -> None:
    async def main() -> tuple[bool, dict[str, Any], dict[str, Any]]:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            first = spec(server)
            await asyncio.sleep(600)
            leading = one.leading
            last = spec(server)
            await one.end()
        return leading, first, last

    leading, first, last = virtualtime.run(main)

    assert leading
    assert first["holderIdentity"] == last["holderIdentity"] == "one"
    assert first["acquireTime"] == last["acquireTime"]
    assert first["renewTime"] != last["renewTime"]
    assert last["leaseDurationSeconds"] == 35
    assert last["leaseTransitions"] == 0


def test_a_second_candidate_waits_and_takes_over_at_once_after_a_release() -> None:
    async def main() -> tuple[bool, float, dict[str, Any]]:
        server = FakeApiServer()
        async with server.running() as client:
            one, two = Candidate(client, "one"), Candidate(client, "two")
            await asyncio.sleep(100)
            both = one.leading and two.leading
            await one.end()
            released = asyncio.get_running_loop().time()
            await asyncio.sleep(20)
            taken = two.since - released
            last = spec(server)
            await two.end()
        return both, taken, last

    both, taken, last = virtualtime.run(main)

    assert not both
    assert 0 < taken <= 6
    assert last["holderIdentity"] == "two"
    assert last["leaseTransitions"] == 1


def test_a_dead_leader_is_followed_within_the_lease_time() -> None:
    async def main() -> tuple[bool, float]:
        server = FakeApiServer()
        held = {"holderIdentity": "dead", "leaseDurationSeconds": 35, "renewTime": "x"}
        server.put("leases", "lease", spec=held)
        async with server.running() as client:
            two = Candidate(client, "two")
            await asyncio.sleep(34)
            early = two.leading
            await asyncio.sleep(10)
            since = two.since
            await two.end()
        return early, since

    early, since = virtualtime.run(main)

    assert not early
    assert 35 <= since <= 36


def test_release_empties_the_holder() -> None:
    async def main() -> dict[str, Any]:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            await one.end()
        return spec(server)

    assert virtualtime.run(main)["holderIdentity"] == ""


def test_a_leader_that_cannot_renew_stops_before_the_lease_ends() -> None:
    async def main() -> tuple[bool, BaseException | None, float]:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            server.fail("PUT", "leases", 500, times=1000)
            cut = asyncio.get_running_loop().time()
            await asyncio.wait([one.task])
            took = asyncio.get_running_loop().time() - cut
        return one.leading, one.task.exception(), took

    leading, error, took = virtualtime.run(main)

    assert not leading
    assert isinstance(error, ExceptionGroup)
    assert error.subgroup(LeaseLostError)
    assert took < 35


def test_a_hanging_server_does_not_keep_a_leader_beyond_its_deadline() -> None:
    async def main() -> float:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            server.hang = asyncio.Event()
            await asyncio.wait([one.task])
            one.task.exception()
            server.hang.set()
            return asyncio.get_running_loop().time()

    assert virtualtime.run(main) < 1 + 35 + 5 + 1


def test_a_leader_whose_lease_was_taken_stops_as_soon_as_it_sees_that() -> None:
    async def main() -> tuple[BaseException | None, float]:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            server.edit("leases", "lease", lambda obj: obj["spec"].update(holderIdentity="thief"))
            await asyncio.wait([one.task])
            return one.task.exception(), asyncio.get_running_loop().time()

    error, when = virtualtime.run(main)

    assert isinstance(error, ExceptionGroup)
    assert error.subgroup(LeaseLostError)
    assert when < 10


def test_an_outage_shorter_than_the_deadline_is_survived() -> None:
    async def main() -> bool:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            server.down = True
            await asyncio.sleep(20)
            server.down = False
            await asyncio.sleep(60)
            leading = one.leading
            await one.end()
        return leading

    assert virtualtime.run(main)


def test_times_are_utc_with_microseconds() -> None:
    async def main() -> dict[str, Any]:
        server = FakeApiServer()
        async with server.running() as client:
            one = Candidate(client, "one")
            await asyncio.sleep(1)
            result = spec(server)
            await one.end()
        return result

    assert pytest.approx(27) == len(virtualtime.run(main)["renewTime"])
