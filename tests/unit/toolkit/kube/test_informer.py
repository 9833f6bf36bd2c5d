"""What an informer promises while the server does what servers do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import StalledError
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, ObjectKey

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
Seen = list[tuple[str, str]]


class Data(msgspec.Struct):
    """The part of a ConfigMap that is looked at."""

    data: dict[str, str] = {}


class Watched:
    """A running informer and what its handler saw."""

    def __init__(self, server: FakeApiServer, client: Client, **options: Any) -> None:
        self.server = server
        decode = msgspec.json.Decoder(Data).decode
        self.informer = Informer(client, CONFIG_MAP, decode=decode, **options)
        self.changes: list[Change[Data]] = []
        self.informer.subscribe(self.changes.append)

    @property
    def seen(self) -> Seen:
        return [(change.type, change.key.name) for change in self.changes]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(600):
            while not condition():  # noqa: ASYNC110 - the clock is virtual
                await asyncio.sleep(0.05)


def watch(
    scenario: Callable[[Watched], Awaitable[None]],
    server: FakeApiServer | None = None,
    **options: Any,
) -> Watched:
    """Run an informer against a fake server on a virtual clock while the scenario acts."""

    async def main() -> Watched:
        fake = server or FakeApiServer()
        async with fake.running() as client:
            watched = Watched(fake, client, **options)
            running = asyncio.create_task(watched.informer.run())
            try:
                await scenario(watched)
            finally:
                running.cancel()
                await asyncio.wait([running])
        return watched

    return virtualtime.run(main)


@pytest.mark.parametrize("mode", ["served", "refused", "ignored"])
def test_it_syncs_with_every_kind_of_server(mode: str) -> None:
    server = FakeApiServer()
    server.watch_list = mode
    for name in ("a", "b", "c", "d", "e"):
        server.put("configmaps", name, data={"x": name})

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        await watched.until(lambda: server.watchers == 1)
        server.put("configmaps", "f")
        await watched.until(lambda: len(watched.changes) == 6)

    watched = watch(scenario, server)

    assert sorted(watched.seen) == [("ADDED", name) for name in "abcdef"]
    assert watched.informer.get(ObjectKey("default", "c")) == Data({"x": "c"})


def test_an_empty_list_may_be_null() -> None:
    server = FakeApiServer()
    server.watch_list, server.no_items = "refused", None

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        watched.server.put("configmaps", "a")
        await watched.until(lambda: len(watched.changes) == 1)

    assert watch(scenario, server).seen == [("ADDED", "a")]


def test_handlers_get_the_value_before_and_after() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        watched.server.put("configmaps", "a", data={"x": "1"})
        watched.server.put("configmaps", "a", data={"x": "2"})
        watched.server.remove("configmaps", "a")
        await watched.until(lambda: len(watched.changes) == 3)

    watched = watch(scenario)

    key = ObjectKey("default", "a")
    one, two = Data({"x": "1"}), Data({"x": "2"})
    assert watched.changes == [
        Change("ADDED", key, None, one),
        Change("MODIFIED", key, one, two),
        Change("DELETED", key, two, None),
    ]


@pytest.mark.parametrize("mode", ["served", "refused"])
def test_an_expired_position_lists_anew_and_reports_only_differences(mode: str) -> None:
    server = FakeApiServer()
    server.watch_list = mode
    for name in ("same", "changed", "gone"):
        server.put("configmaps", name)

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        await watched.until(lambda: server.watchers == 1)
        watched.changes.clear()
        server.down = True
        server.drop_watches()
        server.put("configmaps", "changed", data={"x": "2"})
        server.remove("configmaps", "gone")
        server.put("configmaps", "new")
        server.compact()
        server.down = False
        await watched.until(lambda: len(watched.changes) == 3)
        await asyncio.sleep(10)

    watched = watch(scenario, server)

    assert sorted(watched.seen) == [("ADDED", "new"), ("DELETED", "gone"), ("MODIFIED", "changed")]


def test_a_410_event_inside_the_stream_lists_anew() -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    server = FakeApiServer()
    server.put("configmaps", "a")

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        server.send_raw(json.dumps(error).encode())
        await watched.until(lambda: server.count("GET", "configmaps") == 2)
        await watched.until(lambda: server.watchers == 1)
        server.put("configmaps", "b")
        await watched.until(lambda: len(watched.changes) == 2)

    watched = watch(scenario, server)

    assert watched.seen == [("ADDED", "a"), ("ADDED", "b")]
    assert server.requests[-1][2].get("sendInitialEvents") == "true"


def test_a_dropped_watch_resumes_where_it_was() -> None:
    async def scenario(watched: Watched) -> None:
        server = watched.server
        await watched.informer.wait_synced()
        server.put("configmaps", "a")
        await watched.until(lambda: len(watched.changes) == 1)
        server.drop_watches()
        server.put("configmaps", "b")
        await watched.until(lambda: len(watched.changes) == 2)

    watched = watch(scenario)

    assert watched.seen == [("ADDED", "a"), ("ADDED", "b")]
    assert watched.server.requests[-1][2]["resourceVersion"] == "101"


def test_bookmarks_move_the_position() -> None:
    async def scenario(watched: Watched) -> None:
        server = watched.server
        await watched.informer.wait_synced()
        server.bookmark()
        server.compact()
        await asyncio.sleep(1)
        server.drop_watches()
        await watched.until(lambda: server.count("GET", "configmaps") == 2)

    watched = watch(scenario)

    assert watched.server.requests[-1][2]["resourceVersion"] == "101"


def test_it_knows_how_new_it_is() -> None:
    revisions: list[int] = []

    async def scenario(watched: Watched) -> None:
        informer, server = watched.informer, watched.server
        revisions.append(informer.revision)
        await informer.wait_synced()
        revisions.append(informer.revision)
        server.put("configmaps", "a")
        await watched.until(lambda: bool(watched.changes))
        revisions.append(informer.revision)
        server.remove("configmaps", "a")
        await watched.until(lambda: len(watched.changes) == 2)
        revisions.append(informer.revision)

    watch(scenario)

    assert revisions == [0, 100, 101, 102]


def test_a_replayed_event_is_reported_once() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        obj = watched.server.put("configmaps", "a")
        watched.server.send_raw(json.dumps({"type": "MODIFIED", "object": obj}).encode())
        watched.server.put("configmaps", "b")
        await watched.until(lambda: len(watched.changes) == 2)

    watched = watch(scenario)

    assert watched.seen == [("ADDED", "a"), ("ADDED", "b")]


def test_it_recovers_from_an_outage_of_twenty_seconds() -> None:
    async def scenario(watched: Watched) -> None:
        server = watched.server
        await watched.informer.wait_synced()
        server.down = True
        server.drop_watches()
        await asyncio.sleep(20)
        assert watched.informer.last_error is not None
        server.down = False
        server.put("configmaps", "a")
        back = asyncio.get_running_loop().time()
        await watched.until(lambda: len(watched.changes) == 1)
        assert asyncio.get_running_loop().time() - back < 6

    watched = watch(scenario)

    assert watched.informer.last_error is None


def test_a_kind_that_is_not_served_yet_is_waited_for() -> None:
    server = FakeApiServer()
    kind = server.kinds.pop(("", "v1", "configmaps"))

    async def scenario(watched: Watched) -> None:
        await asyncio.sleep(120)
        assert not watched.informer.synced
        assert isinstance(watched.informer.last_error, ApiError)
        assert len(server.requests) < 40
        server.kinds[("", "v1", "configmaps")] = kind
        await watched.informer.wait_synced()

    watched = watch(scenario, server)

    assert watched.informer.synced
    assert watched.informer.last_error is None


def test_a_forbidden_watch_is_tried_again_ever_more_slowly() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 403, reason="Forbidden", times=1000)

    async def scenario(watched: Watched) -> None:
        await asyncio.sleep(300)
        assert watched.informer.last_error is not None
        assert watched.informer.last_error.status == 403

    watch(scenario, server)

    assert 5 < server.count("GET", "configmaps") < 40


def test_an_object_that_does_not_decode_is_skipped() -> None:
    server = FakeApiServer()
    server.put("configmaps", "bad", data=["not", "a", "mapping"])
    server.put("configmaps", "good")

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        server.put("configmaps", "bad", data={"now": "fine"})
        await watched.until(lambda: len(watched.changes) == 2)

    watched = watch(scenario, server)

    assert watched.seen == [("ADDED", "good"), ("ADDED", "bad")]


@pytest.mark.parametrize("mode", ["served", "refused"])
@pytest.mark.parametrize("fault", [ValueError("http://["), OverflowError(), StalledError("x")])
def test_an_object_that_a_handler_fails_for_costs_itself_only(
    mode: str, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = FakeApiServer()
    server.watch_list = mode
    for name in ("a", "evil", "z"):
        server.put("configmaps", name)
    handled: list[str] = []

    def handle(change: Change[Data]) -> None:
        if change.key.name == "evil":
            raise fault
        handled.append(change.key.name)

    async def scenario(watched: Watched) -> None:
        watched.informer.subscribe(handle)
        # Anyone who listens after the one that fails hears of everything.
        heard: list[str] = []
        watched.informer.subscribe(lambda change: heard.append(change.key.name))
        await watched.until(lambda: watched.informer.synced)
        server.put("configmaps", "later")
        await watched.until(lambda: heard[-1:] == ["later"])
        assert sorted(heard) == ["a", "evil", "later", "z"]

    watch(scenario, server)

    assert sorted(handled) == ["a", "later", "z"]
    (record,) = [each for each in caplog.records if "not handled" in each.message]
    assert vars(record)["object"] == "default/evil"
    assert "http://[" not in caplog.text


def test_objects_larger_than_any_buffer_arrive() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        watched.server.put("configmaps", "huge", data={"x": "y" * 1_500_000})
        watched.server.put("configmaps", "next")
        await watched.until(lambda: len(watched.changes) == 2)

    watched = watch(scenario)

    huge = watched.informer.get(ObjectKey("default", "huge"))
    assert huge
    assert len(huge.data["x"]) == 1_500_000


def test_a_late_subscriber_sees_what_is_there() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")
    late: list[Change[Data]] = []

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        watched.informer.subscribe(late.append)

    watch(scenario, server)

    assert [(change.type, change.key.name) for change in late] == [("ADDED", "a")]


def test_a_silent_stream_is_given_up() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        await asyncio.sleep(400)
        await watched.until(lambda: watched.server.count("GET", "configmaps") >= 3)

    watched = watch(scenario)

    assert watched.informer.synced


def test_selector_namespace_and_metadata_only_reach_the_server() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()

    watched = watch(scenario, namespace="team", label_selector="a=b", metadata_only=True)

    method, path, query = watched.server.requests[-1]
    assert (method, path) == ("GET", "/api/v1/namespaces/team/configmaps")
    assert query["labelSelector"] == "a=b"
    assert "as=PartialObjectMetadata;" in watched.server.headers[-1]["Accept"]


@pytest.mark.parametrize("mode", ["initial", "later"])
def test_an_object_nested_deeper_than_python_follows_is_skipped(mode: str) -> None:
    server = FakeApiServer()
    event = b'{"type":"ADDED","object":{"metadata":{"name":"deep"},"data":%s1%s}}'
    deep = event % (b'{"x":' * 5000, b"}" * 5000)
    if mode == "initial":
        server.raw_events.append(deep)

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        server.send_raw(deep)
        server.put("configmaps", "good")
        await watched.until(lambda: len(watched.changes) == 1)

    watched = watch(scenario, server)

    assert watched.seen == [("ADDED", "good")]
    assert watched.informer.last_error is None


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"[]",
        b'{"type":"ERROR","object":7}',
        b'{"type":"ERROR","object":{"code":"x"}}',
        b'{"type":"ERROR","object":{"details":{"causes":[7],"retryAfterSeconds":"soon"}}}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"DELETED","object":{"metadata":{"name":7}}}',
    ],
)
def test_nonsense_from_a_server_ends_nothing(line: bytes) -> None:
    server = FakeApiServer()

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        server.send_raw(line)
        server.put("configmaps", "good")
        await watched.until(lambda: len(watched.changes) == 1)

    watched = watch(scenario, server)

    assert watched.seen == [("ADDED", "good")]


def test_an_event_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        server = FakeApiServer()
        async with server.running() as client, asyncio.timeout(30):
            watched = Watched(server, client)
            running = asyncio.create_task(watched.informer.run())
            await watched.informer.wait_synced()
            for _ in range(40):
                server.send_unended(b"x" * (1 << 20))
            while not caplog.records:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.wait([running])

    # 40 MiB take real time: no virtual clock
    asyncio.run(main())

    assert "32 MiB" in caplog.records[0].__dict__["error"]


def test_something_may_stand_in_for_what_does_not_decode() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a", data="x")
    server.put("configmaps", "b", data={"x": "1"})

    async def scenario(watched: Watched) -> None:
        await watched.informer.wait_synced()
        await watched.until(lambda: server.watchers == 1)
        server.put("configmaps", "a", data={"x": "2"})
        server.put("configmaps", "b", data="y")
        server.remove("configmaps", "b")
        await watched.until(lambda: len(watched.changes) == 5)

    watched = watch(scenario, server, stand_in=lambda _: Data({"stand": "in"}))

    assert [(each.key.name, each.new) for each in watched.changes] == [
        ("a", Data({"stand": "in"})),
        ("b", Data({"x": "1"})),
        ("a", Data({"x": "2"})),
        ("b", Data({"stand": "in"})),
        ("b", None),
    ]
