"""Coming, staying and going: the cluster lives on whatever happens to us."""

import asyncio
import contextlib
import json
import secrets

import aiohttp
import pytest

from apiserver.registration import API_SERVICE, NAME
from certs import injection
from tests.contract.apiserver.window import AS_ROOT, BASE, Window, make_namespace
from tests.tools.waiting import until
from toolkit.kube.errors import NotFoundError
from toolkit.kube.leaderelection import LEASE
from toolkit.objects import GroupVersionKind

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


async def test_discovery_is_answered_while_reads_say_what_they_wait_for(
    fresh_window: Window,
) -> None:
    window = fresh_window
    await window.start(window.shop.row)
    await window.available()

    found = json.loads(await window.kubectl("get", "--raw", BASE))
    read = await window.refused("get", "toys")

    assert found["resources"]
    assert "cache is not complete yet" in read


async def test_no_request_is_lost_when_one_of_two_replicas_goes(fresh_window: Window) -> None:
    window = fresh_window
    first = await window.start(shutdown_delay_duration=1.0)
    await window.start()
    root = window.front_proxy()
    answers: list[tuple[int, str | None]] = []
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            # Anyone who is not let in at all tries again elsewhere, as every client does.
            with contextlib.suppress(aiohttp.ClientConnectorError):
                reply = await window.ask(BASE, certificate=root, headers=AS_ROOT)
                answers.append((reply.status, reply.headers.get("Retry-After")))

    async def answered() -> None:
        enough = answers.count((200, None)) + 10
        await until(lambda: answers.count((200, None)) > enough)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(ask())
        await answered()
        await first.stop()
        await answered()
        done.set()

    # Anyone who has got in too late is told to come again, as every client does.
    assert set(answers) <= {(200, None), (429, "5")}


async def test_readiness_goes_first_and_watches_end_cleanly(fresh_window: Window) -> None:
    window = fresh_window
    replica = await window.start(shutdown_delay_duration=4.0)
    window.shop.put(window.namespace, "bear")
    url = f"https://127.0.0.1:{window.port}{BASE}/toys?watch=true"
    connector = aiohttp.TCPConnector(ssl=window._tls(window.front_proxy()))

    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, headers=AS_ROOT) as watch,
    ):
        assert b"bear" in await watch.content.readline()
        stopping = asyncio.create_task(replica.stop())
        await until(lambda: replica.manager.stopping)
        ready = await window.ask("/readyz")
        window.shop.put(window.namespace, "duck")
        rest = await watch.content.read()
        await stopping

    assert ready.status == 500
    assert b"shutdown" in ready.body
    # What happens meanwhile is still told, and the end is one.
    assert b"duck" in rest


@pytest.mark.slow  # the API server looks every 30 s whether we are there
async def test_a_namespace_is_deleted_with_us_and_waits_without_us(fresh_window: Window) -> None:
    window = fresh_window
    replica = await window.start()
    await window.available()
    name = f"test-{secrets.token_hex(4)}"

    await make_namespace(window.admin, name)
    assert "deleted" in await window.kubectl("delete", "namespace", name, "--timeout=50s")
    await make_namespace(window.admin, name)
    await replica.stop()

    async def gone_from_discovery() -> bool:
        api = await window.admin.get(injection.API_SERVICE, API_SERVICE)
        return not any(
            row["type"] == "Available" and row["status"] == "True"
            for row in api["status"]["conditions"]
        )

    await window.until(gone_from_discovery)
    await window.admin.delete(NAMESPACE, name)

    async def waits() -> bool:
        found = await window.admin.get(NAMESPACE, name)
        rows = found.get("status", {}).get("conditions", ())
        return any(row["type"] == "NamespaceDeletionDiscoveryFailure" for row in rows)

    await window.until(waits)
    await window.start()
    await window.available()

    async def gone() -> bool:
        with contextlib.suppress(NotFoundError):
            await window.admin.get(NAMESPACE, name)
            return False
        return True

    # the controller tries again when it likes
    await window.until(gone)


async def test_what_an_administrator_unregisters_stays_so(
    fresh_window: Window, caplog: pytest.LogCaptureFixture
) -> None:
    window = fresh_window
    replica = await window.start(enable_leader_election=True, leader_election_retry_period=0.5)
    api = await window.available()
    assert api["spec"]["caBundle"]
    (owner,) = api["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ClusterRole", NAME)

    await window.admin.delete(injection.API_SERVICE, API_SERVICE)
    await window.until(lambda: "somebody deleted the APIService" in caplog.text)
    # It goes on leading, and has had the time to register again.
    for _ in range(3):
        await renewed(window)
    await replica.stop()

    with pytest.raises(NotFoundError):
        await window.admin.get(injection.API_SERVICE, API_SERVICE)


async def renewed(window: Window) -> None:
    """Wait until the replica that leads has renewed its lease."""
    before = await window.admin.get(LEASE, NAME, window.home)

    async def again() -> bool:
        lease = await window.admin.get(LEASE, NAME, window.home)
        return bool(lease["spec"]["renewTime"] != before["spec"]["renewTime"])

    await window.until(again)
