"""Coming, staying and going: the cluster lives on whatever happens to us."""

import asyncio
import contextlib
import json
import logging
import secrets

import aiohttp
import pytest

from apiserver.registration import API_SERVICE, NAME
from certs import injection
from tests.contract.apiserver.conftest import BASE, Window
from tests.contract.apiserver.test_rotation import renew, served
from tests.tools.waiting import until
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


async def test_discovery_is_answered_while_reads_say_what_they_wait_for(window: Window) -> None:
    await window.start(window.shop.row)
    await window.available()

    found = json.loads(await window.kubectl("get", "--raw", BASE))
    read = await window.kubectl("get", "toys")

    assert found["resources"]
    assert "cache is not complete yet" in read


async def test_no_request_is_lost_when_one_of_two_replicas_goes(window: Window) -> None:
    first = await window.start(shutdown_delay_duration=1.0)
    await window.start()
    root = window.front_proxy()
    headers = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]
    answers: list[tuple[int, str | None]] = []
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            # Whoever is not let in at all tries again elsewhere, as every client does.
            with contextlib.suppress(aiohttp.ClientConnectorError):
                reply = await window.ask(BASE, certificate=root, headers=headers)
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

    # Whoever has got in too late is told to come again, as every client does.
    assert set(answers) <= {(200, None), (429, "5")}


async def test_readiness_goes_first_and_watches_end_cleanly(window: Window) -> None:
    replica = await window.start(shutdown_delay_duration=4.0)
    window.shop.put(window.namespace, "bear")
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    url = f"https://127.0.0.1:{window.port}{BASE}/toys?watch=true"
    connector = aiohttp.TCPConnector(ssl=window._tls(window.front_proxy()))

    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, headers=headers) as watch,
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


async def test_a_namespace_is_deleted_with_us_and_waits_without_us(window: Window) -> None:
    replica = await window.start()
    await window.available()
    name = f"test-{secrets.token_hex(4)}"

    await window.kubectl("create", "namespace", name)
    assert "deleted" in await window.kubectl("delete", "namespace", name, "--timeout=50s")
    await window.kubectl("create", "namespace", name)
    await replica.stop()

    async def gone_from_discovery() -> bool:
        api = await window.admin.get(injection.API_SERVICE, API_SERVICE)
        return not any(
            row["type"] == "Available" and row["status"] == "True"
            for row in api["status"]["conditions"]
        )

    # a look every 30 s is upstream's
    await window.until(gone_from_discovery)
    await window.kubectl("delete", "namespace", name, "--wait=false")

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


async def test_a_new_certificate_is_served_and_no_request_fails(window: Window) -> None:
    await window.start()
    await window.available()
    before = await served(window)
    answers: list[str] = []
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            answers.append(await window.kubectl("get", "--raw", f"{BASE}/toys"))

    async def replaced() -> bool:
        return await served(window) != before

    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        await renew(window)
        # Clients trust it for a moment before it is served.
        await window.until(replaced)
        enough = len(answers) + 10
        await until(lambda: len(answers) >= enough)
        done.set()

    assert [answer for answer in answers if "ToyList" not in answer] == []


async def test_what_an_administrator_unregisters_stays_so(window: Window) -> None:
    await window.start()
    api = await window.available()
    assert api["spec"]["caBundle"]
    (owner,) = api["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ClusterRole", NAME)

    await window.admin.delete(injection.API_SERVICE, API_SERVICE)
    await asyncio.sleep(1)

    with pytest.raises(NotFoundError):
        await window.admin.get(injection.API_SERVICE, API_SERVICE)


async def test_what_somebody_changes_is_put_right(window: Window) -> None:
    await window.start()
    await window.available()
    patch = {"spec": {"groupPriorityMinimum": 17000}, "metadata": {"ownerReferences": []}}

    await window.admin.patch(injection.API_SERVICE, API_SERVICE, "", patch, strategy="merge")

    async def right() -> bool:
        found = await window.admin.get(injection.API_SERVICE, API_SERVICE)
        owned = bool(found["metadata"].get("ownerReferences"))
        return owned and found["spec"]["groupPriorityMinimum"] == 1000

    await window.until(right)


async def test_each_request_leaves_one_line_without_content(
    window: Window, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    await window.start()
    window.shop.put(window.namespace, "bear")
    await window.available()
    caplog.clear()

    # Past kube-apiserver, which would refuse it by itself.
    path = f"{BASE}/namespaces/{window.namespace}/toys/bear"
    await window.ask(path, certificate=window.client_of("alice"))

    lines = [record.audit for record in caplog.records if record.name == "audit"]  # type: ignore[attr-defined] - the log's extra
    (line,) = [each for each in lines if each.get("user", {}).get("username") == "alice"]
    assert line["responseStatus"] == {"code": 403}
    assert (line["stage"], line["level"], line["verb"]) == ("ResponseComplete", "Metadata", "get")
    assert line["objectRef"] == {
        "resource": "toys",
        "namespace": window.namespace,
        "name": "bear",
        "apiGroup": "gitops.penstock.dev",
        "apiVersion": "v1alpha1",
    }
