"""The endpoint: whatever comes is bounded, and whatever goes wrong denies."""

import asyncio
import copy
import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import msgspec
import prometheus_client
import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from tests.fakes.admission import POD, REVIEW
from tests.fakes.gateserver import HEADERS, Late, Review, entry, yes
from tests.fakes.strangers import Stranger
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json
from toolkit.turns import Turns
from webhooks import server
from webhooks.callers import ANYBODY, Callers
from webhooks.plugin import Answer
from webhooks.request import Request
from webhooks.server import Convert, Endpoint, Entry, Reviews


@asynccontextmanager
async def serving(
    *plugins: Entry, convert: Convert | None = None, callers: Callers = ANYBODY
) -> AsyncIterator[tuple[TestClient, Endpoint]]:  # type: ignore[type-arg]
    entries = {each.row.name: each for each in plugins}
    endpoint = Endpoint(Reviews(entries), convert=convert, callers=callers)
    async with TestClient(TestServer(endpoint.application())) as client:
        yield client, endpoint


async def post(
    client: TestClient,  # type: ignore[type-arg]
    body: bytes | None = None,
    *,
    path: str = "/admit/test",
    timeout: str = "10s",  # noqa: ASYNC109 - the query's
) -> tuple[int, Json]:
    data = msgspec.json.encode(REVIEW) if body is None else body
    url = URL(path).with_query({"timeout": timeout} if timeout else {})
    async with client.post(url, data=io.BytesIO(data), headers=HEADERS) as response:
        text = await response.read()
        if response.status != 200:
            return response.status, {"text": text.decode()}
        found: Json = msgspec.json.decode(text)["response"]
        return response.status, found


async def test_an_answer_lets_the_request_pass() -> None:
    async with serving(entry()) as (client, _):
        assert await post(client) == (200, {"uid": "u-1", "allowed": True})


async def test_an_error_of_a_policy_denies() -> None:
    async def no(_: Request) -> Answer:
        raise AccessDeniedError("not from there")

    async with serving(entry(no)) as (client, _):
        _, answer = await post(client)

    assert answer["allowed"] is False
    assert answer["status"]["message"] == "not from there"
    assert answer["status"]["code"] == 403


async def test_a_bug_of_a_policy_denies_and_quotes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_: Request) -> Answer:
        raise ValueError("hunter2")

    async with serving(entry(broken)) as (client, _):
        _, answer = await post(client)

    assert answer["allowed"] is False
    assert answer["status"]["code"] == 500
    assert "which is a bug in Penstock" in answer["status"]["message"]
    assert "hunter2" not in str(answer) + caplog.text


async def test_the_deadline_is_the_callers_less_a_margin() -> None:
    now = asyncio.get_running_loop().time
    told: list[tuple[float, float]] = []

    async def look(request: Request) -> Answer:
        told.append((request.deadline, now()))
        return Answer()

    given = {"10s": 9.45, "2s": 1.45, "1s": 0.7, "": 9.45, "nonsense": 9.45, "9000h": 29.45}
    async with serving(entry(look)) as (client, _):
        for timeout, seconds in given.items():
            asked = now()
            await post(client, timeout=timeout)
            deadline, looked = told.pop()
            assert asked <= deadline - seconds <= looked, timeout


async def test_a_plugin_that_is_too_slow_denies() -> None:
    async def dawdle(_: Request) -> Answer:
        await asyncio.sleep(60)
        return Answer()

    async with serving(entry(dawdle)) as (client, _):
        _, answer = await post(client, timeout="200ms")

    assert answer["allowed"] is False
    assert answer["status"]["code"] == 504


async def test_a_process_that_is_held_up_denies_all_the_same() -> None:
    async def block(_: Request) -> Answer:
        time.sleep(0.3)  # noqa: ASYNC251 - so that every deadline passes at once
        await asyncio.sleep(60)
        return Answer()

    async with serving(entry(block)) as (client, _):
        status, answer = await post(client, timeout="200ms")

    assert (status, answer["allowed"], answer["status"]["code"]) == (200, False, 504)


async def test_nothing_passes_before_the_caches_are_complete() -> None:
    late = Late()
    async with serving(entry(caches=(late,))) as (client, _):
        _, early = await post(client, timeout="200ms")
        late.event.set()
        _, after = await post(client)

    assert early["allowed"] is False
    assert after["allowed"] is True


async def test_too_many_requests_are_denied_with_words() -> None:
    release = asyncio.Event()

    async def wait(_: Request) -> Answer:
        await release.wait()
        return Answer()

    async with serving(entry(wait, turns=Turns(places=1, waiting=1))) as (client, _):
        pending = [asyncio.create_task(post(client)) for _ in range(3)]
        done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        answers = [answer["allowed"] for _, answer in await asyncio.gather(*pending)]

    (first,) = done
    assert "too many requests" in first.result()[1]["status"]["message"]
    assert sorted(answers) == [False, True, True]


def review_of(namespace: str) -> bytes:
    return msgspec.json.encode({**REVIEW, "request": {**REVIEW["request"], "namespace": namespace}})


async def test_reviews_that_wait_for_others_keep_no_place() -> None:
    release, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: Request) -> Answer:
        if request.namespace == "slow":
            async with request.place.away():
                waiting.release()
                await release.wait()
        return Answer()

    async with serving(entry(wait, turns=Turns(places=1, waiting=8))) as (client, _):
        pending = [asyncio.create_task(post(client, review_of("slow"))) for _ in range(2)]
        for _ in pending:
            await waiting.acquire()
        _, other = await post(client, review_of("quick"))
        release.set()
        answers = [answer["allowed"] for _, answer in await asyncio.gather(*pending)]

    assert other["allowed"] is True
    assert answers == [True, True]


async def test_bytes_under_review_are_shared_between_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: Request) -> Answer:
        if request.namespace == "slow":
            waiting.release()
            await release.wait()
        return Answer()

    monkeypatch.setattr(server, "MAX_REVIEWING", 5 * len(review_of("slow")))
    async with serving(entry(wait)) as (client, _):
        pending = [asyncio.create_task(post(client, review_of("slow"))) for _ in range(3)]
        for _ in pending:
            await waiting.acquire()
        _, own = await post(client, review_of("slow"))
        _, other = await post(client, review_of("s"))
        release.set()
        await asyncio.gather(*pending)

    assert own["status"]["code"] == 429
    assert other["allowed"] is True


async def test_the_gauges_tell_who_holds_a_place_and_who_waits_now() -> None:
    release = asyncio.Event()

    async def wait(_: Request) -> Answer:
        await release.wait()
        return Answer()

    def told() -> list[float | None]:
        names = ("penstock_admission_in_flight", "penstock_admission_waiting")
        return [prometheus_client.REGISTRY.get_sample_value(n, {"plugin": "test"}) for n in names]

    async with serving(entry(wait, turns=Turns(places=1, waiting=4))) as (client, _):
        pending = [asyncio.create_task(post(client)) for _ in range(3)]
        async with asyncio.timeout(9):
            while told() != [1, 2]:  # noqa: ASYNC110 - gauges are read, they tell nobody
                await asyncio.sleep(0.01)
        release.set()
        await asyncio.gather(*pending)

    assert told() == [0, 0]


async def test_a_plugin_that_changes_in_place_is_its_own_problem() -> None:
    async def scribble(request: Request) -> Answer:
        changed = copy.deepcopy(request.object) or {}
        changed["metadata"]["labels"] = {"a": "b"}
        return Answer(object=changed)

    async with serving(entry(scribble)) as (client, _):
        _, answer = await post(client)

    assert answer["patchType"] == "JSONPatch"


async def test_what_is_no_review_is_no_review() -> None:
    async with serving(entry()) as (client, _):
        assert (await post(client, b"{}"))[0] == 400
        assert (await post(client, path="/admit/other"))[0] == 404
        async with client.post("/admit/test", data=b"{}") as response:
            assert response.status == 415
        async with client.get("/admit/test") as response:
            assert response.status == 405
        assert (await post(client, path="/convert"))[0] == 404


async def test_a_body_has_a_limit_told_or_not() -> None:
    big = b'{"a":"' + b"x" * server.MAX_BODY + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(big), 1 << 20):
            yield big[at : at + (1 << 20)]

    async with serving(entry()) as (client, _):
        assert (await post(client, big))[0] == 413
        async with client.post("/admit/test", data=pieces(), headers=HEADERS) as response:
            assert response.status == 413


async def test_a_review_of_two_objects_of_the_largest_size_fits() -> None:
    large = {**POD, "metadata": {**POD["metadata"], "annotations": {"a": "x" * (3 << 20)}}}
    body = {**REVIEW, "request": {**REVIEW["request"], "object": large, "oldObject": large}}

    async with serving(entry()) as (client, _):
        status, answer = await post(client, msgspec.json.encode(body))

    assert (status, answer["allowed"]) == (200, True)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with serving(entry()) as (client, _):
        url = URL("/admit/test").with_query(timeout="200ms")
        async with client.post(url, data=never(), headers=HEADERS) as response:
            assert response.status == 504


@pytest.mark.parametrize("path", ["/admit/test", "/convert"])
async def test_announcing_bodies_keeps_nobody_out(path: str) -> None:
    """They announce all that there is room for, whatever that is, and send a byte each."""

    async def convert(body: bytes) -> bytes:
        return body

    most = server.MAX_CONVERSION if path == "/convert" else server.MAX_BODY
    lines = (f"POST {path}?timeout=30s HTTP/1.1", "Host: a", "Content-Type: application/json")
    sizes = [most] * 20 + [most >> each for each in range(1, 20)]
    async with serving(entry(), convert=convert) as (client, _):
        port = client.port
        assert port is not None
        strangers = [await Stranger.open(port) for _ in sizes]
        for each, size in zip(strangers, sizes, strict=True):
            head = "\r\n".join((*lines, f"Content-Length: {size}", "", "{"))
            await each.send(head.encode())

        reviewed = await post(client)
        async with client.post("/convert", data=b"{}", headers=HEADERS) as response:
            converted = response.status
        for each in strangers:
            await each.close()

    assert (reviewed[0], converted) == (200, 200)


async def test_conversions_are_for_those_networks_too() -> None:
    async def convert(body: bytes) -> bytes:
        return body

    async def said(path: str, *networks: str, **headers: str) -> int:
        callers = Callers(networks=tuple(ip_network(each) for each in networks))
        async with (
            serving(entry(), convert=convert, callers=callers) as (client, _),
            client.post(path, json=REVIEW, headers=headers) as response,
        ):
            return response.status

    carried = {"X-Forwarded-Uri": "/api/v1/namespaces/a/pods/b/proxy/convert"}
    for path in ("/convert", "/admit/test"):
        assert await said(path, "127.0.0.0/8") == 200
        assert await said(path, "10.0.0.0/8") == 403
        assert await said(path, "127.0.0.0/8", **carried) == 403


async def test_draining_ends_readiness_and_connections_and_finishes_reviews() -> None:
    release = asyncio.Event()

    async def wait(_: Request) -> Answer:
        await release.wait()
        return Answer()

    async with serving(entry(wait)) as (client, endpoint):
        pending = asyncio.create_task(post(client))
        async with client.get("/readyz") as response:
            assert response.status == 200
        drained = asyncio.create_task(endpoint.drain(linger=0, grace=10))
        await asyncio.sleep(0)

        async with client.get("/readyz") as response:
            assert response.status == 503
        assert not drained.done()
        release.set()
        await drained
        assert (await pending)[1]["allowed"] is True


async def test_a_conversion_is_handed_on() -> None:
    async def convert(body: bytes) -> bytes:
        return body.upper()

    async with (
        serving(entry(), convert=convert) as (client, _),
        client.post("/convert", data=b'{"a":1}', headers=HEADERS) as response,
    ):
        assert await response.read() == b'{"A":1}'


def sharing(name: str, behave: Review = yes, **more: Any) -> Entry:
    """Make a plugin that is asked with others at ``/admit/both``."""
    return entry(behave, **{"name": name, "webhook": "both", "mutating": False, **more})


async def refuse(request: Request) -> Answer:
    raise AccessDeniedError(f"not {request.name}")


async def hint(_: Request) -> Answer:
    return Answer(warnings=("mind the gap",), audit={"seen": "yes"})


async def fail(_: Request) -> Answer:
    raise ValueError


async def wait(_: Request) -> Answer:
    await asyncio.Event().wait()
    return Answer()


async def test_what_all_let_pass_passes_with_all_that_they_say() -> None:
    async with serving(sharing("a", hint), sharing("b")) as (client, _):
        _, answer = await post(client, path="/admit/both")

    assert answer["allowed"] is True
    assert answer["warnings"] == ["mind the gap"]
    assert answer["auditAnnotations"] == {"seen": "yes"}


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("behave", [refuse, fail, wait], ids=["refuses", "fails", "waits"])
async def test_what_one_of_several_does_not_let_pass_is_denied(at: int, behave: Review) -> None:
    plugins = [sharing(name, behave if n == at else hint) for n, name in enumerate("abc")]

    async with serving(*plugins) as (client, _):
        _, answer = await post(client, path="/admit/both", timeout="200ms")

    assert answer["allowed"] is False
    assert answer["warnings"] == ["mind the gap"]


async def test_the_first_denial_in_the_order_of_the_plugins_is_told() -> None:
    late = asyncio.Event()

    async def later(_: Request) -> Answer:
        await late.wait()
        raise AccessDeniedError("the first")

    async def sooner(_: Request) -> Answer:
        late.set()
        raise AccessDeniedError("the second")

    async with serving(sharing("a", later), sharing("b", sooner)) as (client, _):
        _, answer = await post(client, path="/admit/both")

    assert answer["status"]["message"] == "the first"


async def test_each_plugin_is_still_asked_alone_by_its_own_name() -> None:
    async with serving(sharing("a"), sharing("b", refuse)) as (client, _):
        answers = [(await post(client, path=f"/admit/{name}"))[1]["allowed"] for name in "ab"]

    assert answers == [True, False]


@pytest.mark.parametrize("path", ["/admit/both", "/admit/a"])
@pytest.mark.parametrize(
    "plugin",
    [
        sharing("a", fail, fail_open=True),
        sharing("a", wait, fail_open=True, timeout=0),
        sharing("a", wait, fail_open=True, turns=Turns(places=0, waiting=0)),
        sharing("a", fail_open=True, timeout=0, caches=(Late(),)),
    ],
    ids=["fails", "waits", "is busy", "is not ready"],
)
async def test_what_fails_open_holds_nothing_up(plugin: Entry, path: str) -> None:
    async with serving(plugin, sharing("b", hint)) as (client, _):
        _, answer = await post(client, path=path)

    assert answer["allowed"] is True


async def test_what_fails_open_may_deny_all_the_same() -> None:
    async with serving(sharing("a", refuse, fail_open=True), sharing("b")) as (client, _):
        _, answer = await post(client, path="/admit/both")

    assert answer["status"]["message"] == "not web"
