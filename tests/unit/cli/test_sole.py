"""An ``up`` is seen by others while it runs, and not afterwards."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cli import errors, sole
from tests.fakes import virtualtime
from tests.fakes.apiserver import KINDS, FakeApiServer

PLACE = "penstock-system"
ONE, TWO = sole.identity(Path("/one")), sole.identity(Path("/two"))


def test_a_second_up_is_refused_while_the_first_runs_and_taken_when_it_ended() -> None:
    async def main() -> tuple[str, Any]:
        server = cluster()
        async with server.running() as api:
            async with sole.held(api, PLACE, mine=ONE):
                with pytest.raises(errors.UsageError) as refused:
                    await require(api, TWO)
            await require(api, TWO)
            async with sole.held(api, PLACE, mine=TWO):
                return str(refused.value), spec(server)

    told, last = virtualtime.run(main)

    assert "/one" in told
    assert "penstock down" in told
    assert last["holderIdentity"] == TWO


def test_an_up_that_was_killed_is_waited_for_by_others_and_not_by_itself() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        server = cluster(holder=ONE)
        async with server.running() as api:
            start = loop.time()
            await require(api, ONE)
            own = loop.time() - start
            await require(api, TWO)
            async with sole.held(api, PLACE, mine=TWO):
                return own, loop.time() - start

    own, other = virtualtime.run(main)

    assert own < 1
    assert 15 <= other < 20


def test_of_two_that_start_at_once_one_is_refused() -> None:
    async def main() -> None:
        server = cluster()
        async with server.running() as api:
            await require(api, ONE)
            await require(api, TWO)
            async with sole.held(api, PLACE, mine=ONE):
                with pytest.raises(errors.UsageError, match="/one"):
                    async with sole.held(api, PLACE, mine=TWO):
                        pass

    virtualtime.run(main)


def test_an_up_ends_when_another_has_taken_its_lease() -> None:
    async def main() -> None:
        server = cluster()
        async with server.running() as api:
            with pytest.raises(errors.UsageError, match="/two"):
                await _held_until_taken(server, api)

    virtualtime.run(main)


def test_an_outage_of_the_api_server_does_not_end_an_up() -> None:
    async def main() -> Any:
        server = cluster()
        async with server.running() as api, sole.held(api, PLACE, mine=ONE):
            before = spec(server)["renewTime"]
            server.fail("PUT", "leases", 503, times=30)
            await asyncio.sleep(600)
            return before, spec(server)["renewTime"]

    before, after = virtualtime.run(main)

    assert before != after


def test_a_lease_of_a_tenant_counts_for_nothing() -> None:
    async def main() -> None:
        server = cluster()
        server.put("namespaces", "tenant", "")
        server.put("leases", sole.NAME, "tenant", spec={"holderIdentity": ONE})
        async with server.running() as api:
            await require(api, TWO)
        assert ("leases", "tenant", sole.NAME) in server.objects

    virtualtime.run(main)


async def _held_until_taken(server: FakeApiServer, api: Any) -> None:
    async with sole.held(api, PLACE, mine=ONE):
        server.put("leases", sole.NAME, PLACE, spec={"holderIdentity": TWO})
        await asyncio.Event().wait()


async def require(api: Any, mine: str) -> None:
    await sole.require_no_other(api, mine=mine, report=lambda _: None)


def cluster(*, holder: str = "") -> FakeApiServer:
    server = FakeApiServer()
    server.kinds = {**KINDS, ("", "v1", "namespaces"): "Namespace"}
    labels = {"app.kubernetes.io/part-of": "penstock"}
    server.put("namespaces", PLACE, "", metadata={"labels": labels})
    if holder:
        held = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "long ago"}
        server.put("leases", sole.NAME, PLACE, spec=held)
    return server


def spec(server: FakeApiServer) -> Any:
    return server.objects[("leases", PLACE, sole.NAME)]["spec"]
