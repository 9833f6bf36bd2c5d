"""Events reach the cluster and the notifier, and never hold anybody up."""

import asyncio
import json
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import prometheus_client
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from crds.meta import ObjectMeta
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.events import Recorder
from toolkit.forwarding import AT_ONCE
from toolkit.kube.reconciliation import Event, Severity
from toolkit.objects import GroupVersionKind, ObjectRef

LOGGER = "toolkit.forwarding"
PREFIX = "event.toolkit.fluxcd.io/"
REPO = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")


def event(
    message: str = "hello",
    *,
    severity: Severity = "info",
    annotations: dict[str, str] | None = None,
    preceded_by: str = "",
    **metadata: str,
) -> Event:
    meta = ObjectMeta(
        name="a", namespace="team", uid="u1", resource_version="7", annotations=annotations or {}
    )
    return Event(
        ref=ObjectRef(REPO, "team", "a"),
        meta=meta,
        severity=severity,
        reason="NewArtifact",
        message=message,
        metadata=metadata,
        preceded_by=preceded_by,
    )


class Notifier:
    """The receiving end of ``--events-addr``; it takes ``at_once`` events in one request."""

    def __init__(self, *statuses: int, at_once: int = 0) -> None:
        self.statuses = list(statuses)
        self.at_once = at_once
        self.requests: list[list[str]] = []
        self.received: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        several = isinstance(body, list)
        if several and not self.at_once:  # as notification-controller
            return web.Response(status=400)
        events = body if several else [body]
        self.received += events
        self.requests.append([each["message"] for each in events])
        statuses = [self.statuses.pop(0) if self.statuses else 202 for _ in events]
        headers = {AT_ONCE: str(self.at_once)} if self.at_once else {}
        if several:
            return web.json_response(statuses, status=207, headers=headers)
        return web.Response(status=statuses[0], headers=headers)


def record(
    scenario: Callable[[Recorder], Awaitable[None]],
    *,
    server: FakeApiServer | None = None,
    notifier: Notifier | None = None,
    address: str = "",
) -> list[dict[str, Any]]:
    """Run a recorder while the scenario emits; return the Events of the cluster."""

    async def main() -> list[dict[str, Any]]:
        fake = server or FakeApiServer()
        sink = notifier or Notifier()
        app = web.Application()
        app.router.add_post("/", sink.handle)
        receiver = TestServer(app)
        await receiver.start_server()
        async with fake.running() as client:
            where = address or str(receiver.make_url("/"))
            recorder = Recorder(client, controller="source-controller", address=where)
            running = asyncio.create_task(recorder.run())
            await asyncio.sleep(0.1)
            await scenario(recorder)
            running.cancel()
            await asyncio.wait([running])
        await receiver.close()
        return [obj for (kind, _, _), obj in fake.objects.items() if kind == "events"]

    return virtualtime.run(main)


def test_an_event_becomes_a_core_event_with_flux_s_annotations() -> None:
    async def scenario(recorder: Recorder) -> None:
        annotations = {"event.toolkit.fluxcd.io/cluster": "prod", "other": "x"}
        recorder.emit(event(annotations=annotations, revision="main@sha1:abc"))

    (written,) = record(scenario)

    assert written["metadata"]["namespace"] == "team"
    assert written["metadata"]["annotations"] == {
        "source.toolkit.fluxcd.io/revision": "main@sha1:abc",
        "event.toolkit.fluxcd.io/cluster": "prod",
    }
    assert written["involvedObject"] == {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "namespace": "team",
        "name": "a",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert (written["type"], written["reason"], written["message"]) == (
        "Normal",
        "NewArtifact",
        "hello",
    )
    assert written["reportingComponent"] == written["source"]["component"] == "source-controller"
    assert written["count"] == 1


def test_a_repeated_event_is_counted_not_multiplied() -> None:
    async def scenario(recorder: Recorder) -> None:
        for _ in range(3):
            recorder.emit(event("broken", severity="error"))
        recorder.emit(event("other", severity="error"))

    written = record(scenario)

    assert {each["message"]: each["count"] for each in written} == {"broken": 3, "other": 1}
    assert {each["type"] for each in written} == {"Warning"}


def test_what_was_said_is_not_kept_to_count_repeats() -> None:
    """A tenant can have 4,096 different messages of 32 KiB written."""

    async def main() -> int:
        server = FakeApiServer()
        async with server.running() as client:
            recorder = Recorder(client, controller="source-controller")
            running = asyncio.create_task(recorder.run())
            tracemalloc.start()
            try:
                for number in range(200):
                    recorder.emit(event(f"{number} {'x' * 32_000}"))
                while len(server.objects) < 200:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.1)
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            running.cancel()
            await asyncio.wait([running])
        return held

    assert virtualtime.run(main) < 200 * 32_000 // 2


def test_a_repeat_after_the_event_expired_is_a_new_event() -> None:
    server = FakeApiServer()

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event())
        await asyncio.sleep(1)
        (key,) = (key for key in server.objects if key[0] == "events")
        del server.objects[key]
        recorder.emit(event())

    (written,) = record(scenario, server=server)

    assert written["count"] == 1


def test_the_message_of_a_core_event_is_cut_at_1024_bytes() -> None:
    notifier = Notifier()

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("ü" * 1000))

    (written,) = record(scenario, notifier=notifier)

    assert len(written["message"].encode()) <= 1024
    assert written["message"].endswith("ü...")
    assert notifier.received[0]["message"] == "ü" * 1000


def test_the_notifier_gets_flux_s_json() -> None:
    notifier = Notifier()

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("broken", severity="error", revision="r"))

    record(scenario, notifier=notifier)

    (posted,) = notifier.received
    assert posted["severity"] == "error"
    assert posted["reportingController"] == "source-controller"
    assert posted["metadata"] == {"source.toolkit.fluxcd.io/revision": "r"}
    assert posted["involvedObject"]["name"] == "a"
    assert posted["timestamp"].endswith("Z")


def test_what_was_forwarded_before_is_told_once_more_in_the_cluster_alone() -> None:
    notifier = Notifier()

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("ended", preceded_by="passed"))

    (written,) = record(scenario, notifier=notifier)

    assert written["message"] == "passed\nended"
    assert [posted["message"] for posted in notifier.received] == ["ended"]


def test_trace_events_stay_in_the_cluster() -> None:
    notifier = Notifier()

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event(severity="trace"))

    (written,) = record(scenario, notifier=notifier)

    assert written["type"] == "Normal"
    assert not notifier.received


def test_a_failing_notifier_is_tried_again() -> None:
    notifier = Notifier(500, 503)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event())
        await asyncio.sleep(10)

    record(scenario, notifier=notifier)

    assert len(notifier.received) == 3


def test_a_notifier_that_de_duplicates_is_content() -> None:
    notifier = Notifier(429)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event())
        await asyncio.sleep(10)

    record(scenario, notifier=notifier)

    assert len(notifier.received) == 1


def dropped(sink: str) -> float:
    name = "penstock_events_dropped_total"
    return prometheus_client.REGISTRY.get_sample_value(name, {"sink": sink}) or 0.0


async def emit_ten(recorder: Recorder) -> None:
    for number in range(10):
        recorder.emit(event(str(number)))
    await asyncio.sleep(30)


def test_a_burst_takes_few_requests_where_the_notifier_takes_several() -> None:
    notifier = Notifier(at_once=6)

    record(emit_ten, notifier=notifier)

    assert notifier.requests == [["0"], ["1", "2", "3", "4", "5", "6"], ["7", "8", "9"]]


def test_what_comes_soon_after_an_event_is_sent_together() -> None:
    notifier = Notifier(at_once=64)

    async def scenario(recorder: Recorder) -> None:
        for number in range(8):
            recorder.emit(event(str(number)))
            await asyncio.sleep(0.03)
        await asyncio.sleep(1)
        recorder.emit(event("alone"))
        await asyncio.sleep(0.05)

    record(scenario, notifier=notifier)

    assert notifier.requests[0] == ["0"]
    assert notifier.requests[-1] == ["alone"]
    assert len(notifier.requests) <= 5
    assert [each["message"] for each in notifier.received] == [*map(str, range(8)), "alone"]


def test_events_are_sent_one_by_one_to_a_notifier_that_says_nothing() -> None:
    notifier = Notifier()

    record(emit_ten, notifier=notifier)

    assert notifier.requests == [[str(number)] for number in range(10)]


def test_of_several_events_those_that_were_not_kept_are_sent_again() -> None:
    notifier = Notifier(202, 202, 503, 429, 503, at_once=4)

    record(emit_ten, notifier=notifier)

    assert notifier.requests[1:3] == [["1", "2", "3", "4"], ["2", "4"]]
    assert {each["message"] for each in notifier.received} == {str(n) for n in range(10)}


@pytest.mark.parametrize("at_once", [0, 4])
def test_an_event_that_is_never_taken_does_not_hold_others_back(
    at_once: int, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(202, 400, at_once=at_once)
    before = dropped("notification")

    record(emit_ten, notifier=notifier)

    assert len(notifier.received) == 10
    assert dropped("notification") == before + 1
    assert [row.__dict__["error"] for row in caplog.records if row.name == LOGGER] == ["status 400"]


def test_a_notifier_that_takes_several_no_more_gets_each_of_them() -> None:
    notifier = Notifier(at_once=6)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("first"))
        await asyncio.sleep(1)
        notifier.at_once = 0
        await emit_ten(recorder)

    record(scenario, notifier=notifier)

    assert notifier.requests == [["first"], *([str(number)] for number in range(10))]


def test_several_events_are_no_larger_together_than_is_read_at_once() -> None:
    notifier = Notifier(at_once=64)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("first"))
        for number in range(4):
            recorder.emit(event(str(number), annotations={f"{PREFIX}note": "x" * 30_000}))
        await asyncio.sleep(1)

    record(scenario, notifier=notifier)

    assert notifier.requests == [["first"], ["0", "1"], ["2", "3"]]


def test_a_notifier_that_is_not_installed_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    before = dropped("notification")

    async def scenario(recorder: Recorder) -> None:
        for number in range(5):
            recorder.emit(event(str(number)))
            await asyncio.sleep(61)

    with caplog.at_level(logging.INFO, LOGGER):
        written = record(scenario, address="http://nobody.invalid./")

    told = [(row.levelname, row.message) for row in caplog.records if row.name == LOGGER]
    assert told == [("INFO", "no notification controller is installed")]
    assert len(written) == 5
    assert dropped("notification") == before


def test_an_api_server_that_refuses_an_event_does_not_stop_the_next() -> None:
    server = FakeApiServer()
    server.fail("POST", "events", 403, reason="Forbidden")

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("first"))
        recorder.emit(event("second"))

    (written,) = record(scenario, server=server)

    assert written["message"] == "second"


ENDING = json.dumps(
    {
        "kind": "Status",
        "code": 403,
        "reason": "Forbidden",
        "message": "unable to create new content in namespace team because it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "team"}]},
    }
)


def test_an_error_in_a_namespace_that_is_deleted_is_told_about_the_namespace() -> None:
    server = FakeApiServer()
    server.fail("POST", "namespaces/team/events", 403, text=ENDING)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("objects stay", severity="error"))
        recorder.emit(event("objects stay", severity="error"))

    (written,) = record(scenario, server=server)

    assert written["metadata"]["namespace"] == "default"
    assert written["involvedObject"] == {"apiVersion": "v1", "kind": "Namespace", "name": "team"}
    assert written["message"] == "GitRepository/team/a: objects stay"
    assert written["count"] == 2


def test_news_in_a_namespace_that_is_deleted_is_dropped() -> None:
    server = FakeApiServer()
    server.fail("POST", "namespaces/team/events", 403, text=ENDING)

    async def scenario(recorder: Recorder) -> None:
        recorder.emit(event("fetched"))

    assert record(scenario, server=server) == []


def test_what_is_queued_at_the_end_is_still_sent() -> None:
    async def scenario(recorder: Recorder) -> None:
        for number in range(20):
            recorder.emit(event(str(number)))

    assert len(record(scenario)) == 20


def test_more_than_fits_is_dropped_and_counted() -> None:
    before = dropped("cluster")

    async def main() -> None:
        server = FakeApiServer()
        async with server.running() as client:
            recorder = Recorder(client, controller="c")
            for number in range(1005):
                recorder.emit(event(str(number)))

    virtualtime.run(main)

    assert dropped("cluster") - before == pytest.approx(5)
