"""Watches over HTTP: what comes first, what follows, how they end, and what slow readers cost."""

import asyncio
import contextlib
import socket
from collections import Counter

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apiserver import serving, watching
from apiserver.history import Bounds
from apiserver.selectors import Selector, Term
from apiserver.shapes import Whole
from apiserver.view import View
from tests.fakes import virtualtime
from tests.fakes.readserver import Reader, gauge, new_view, resource, serve
from toolkit.objects import Json, ObjectKey

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
END = {"k8s.io/initial-events-end": "true"}


def filled(**more: object) -> View:
    view = new_view(**more)
    for number in range(3):
        view.put(gauge(f"n{number}", labels={"odd": str(number % 2)}), revision=100)
    view.complete()
    return view


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", name)


def summary(events: list[Json]) -> list[tuple[str, str]]:
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in events]


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_watch_from_nowhere_tells_what_there_is_and_then_what_happens(
    version: dict[str, str],
) -> None:
    view = filled()
    async with serve(view) as reader, reader.watch(**version) as lines:
        first = await lines.take(3)
        view.put(gauge("n3"), revision=101)
        view.put(gauge("n3", level=2), revision=102)
        view.remove(key("n3"), revision=103)
        rest = [await lines.next() for _ in range(3)]

    assert first == [("ADDED", "n0"), ("ADDED", "n1"), ("ADDED", "n2")]
    assert [
        (each["type"], each["object"]["metadata"]["resourceVersion"]) for each in rest if each
    ] == [
        ("ADDED", "101001007"),
        ("MODIFIED", "102001007"),
        ("DELETED", "103001007"),
    ]
    assert rest[2] is not None
    assert rest[2]["object"]["spec"] == {"level": 2}


async def test_a_watch_goes_on_after_the_version_of_a_list() -> None:
    view = filled()
    async with serve(view) as reader:
        _, document = await reader.get()
        view.put(gauge("n3"), revision=101)
        version = document["metadata"]["resourceVersion"]
        async with reader.watch(resourceVersion=version) as lines:
            missed = await lines.take(1)
            view.put(gauge("n4"), revision=102)
            later = await lines.take(1)

    assert (missed, later) == ([("ADDED", "n3")], [("ADDED", "n4")])


async def test_an_object_that_leaves_the_selection_is_deleted_for_the_reader() -> None:
    view = filled()
    async with serve(view) as reader, reader.watch(labelSelector="odd=1") as lines:
        first = await lines.take(1)
        view.put(gauge("n0", labels={"odd": "0"}, level=1), revision=101)
        view.put(gauge("n1", labels={"odd": "0"}, level=2), revision=102)
        gone = await lines.next()
        view.put(gauge("n1", labels={"odd": "1"}, level=3), revision=103)
        back = await lines.take(1)

    assert first == [("ADDED", "n1")]
    assert gone is not None
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"] == {"odd": "1"}, "as it was when it was selected"
    assert gone["object"]["metadata"]["resourceVersion"] == "102001007"
    assert back == [("ADDED", "n1")]


async def test_a_watch_of_one_name_or_namespace_hears_of_nothing_else() -> None:
    view = filled()
    async with (
        serve(view) as reader,
        reader.watch("/namespaces/apps/gauges", fieldSelector="metadata.name=n1") as one,
        reader.watch("/namespaces/other/gauges") as other,
    ):
        first = await one.take(1)
        for revision, name in enumerate(("n0", "n1"), 101):
            view.put(gauge(name, level=1), revision=revision)
        view.put(gauge("x", namespace="other"), revision=103)
        told = (await one.take(1), await other.take(1))

    assert first == [("ADDED", "n1")]
    assert told == ([("MODIFIED", "n1")], [("ADDED", "x")])


async def test_a_streaming_list_ends_with_the_bookmark_that_informers_wait_for() -> None:
    view = filled()
    async with serve(view) as reader, reader.watch(**WATCH_LIST) as lines:
        first = await lines.take(3)
        mark = await lines.next()
        view.put(gauge("n3"), revision=101)
        later = await lines.take(1)

    assert first == [("ADDED", "n0"), ("ADDED", "n1"), ("ADDED", "n2")]
    assert mark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "Gauge",
            "apiVersion": "gitops.penstock.dev/v1alpha1",
            "metadata": {
                "resourceVersion": "100000007",
                "creationTimestamp": None,
                "annotations": END,
            },
        },
    }
    assert later == [("ADDED", "n3")]


async def test_a_streaming_list_of_nothing_ends_too() -> None:
    async with (
        serve(filled()) as reader,
        reader.watch("/namespaces/none/gauges", **WATCH_LIST) as lines,
    ):
        mark = await lines.next()

    assert mark is not None
    assert mark["object"]["metadata"]["annotations"] == END


async def test_initial_events_can_be_left_out() -> None:
    view = filled()
    options = WATCH_LIST | {"sendInitialEvents": "false"}
    async with serve(view) as reader, reader.watch(**options) as lines:
        await watches(reader, 1)
        view.put(gauge("n3"), revision=101)
        assert await lines.take(1) == [("ADDED", "n3")]


async def test_who_wants_no_bookmarks_gets_none() -> None:
    options = WATCH_LIST | {"allowWatchBookmarks": "false", "timeoutSeconds": "1"}
    async with serve(filled()) as reader, reader.watch(**options) as lines:
        assert {each["type"] for each in await lines.rest()} == {"ADDED"}


async def test_tables_have_their_columns_in_the_first_event_only() -> None:
    view = filled()
    async with serve(view) as reader, reader.watch(accept=TABLE, **WATCH_LIST) as lines:
        initial = [await lines.next() for _ in range(3)]
        mark = await lines.next()
        view.put(gauge("n3", level=4), revision=101)
        later = await lines.next()

    tables = [each["object"] for each in (*initial, mark, later) if each]
    assert [len(table["columnDefinitions"]) for table in tables] == [4, 0, 0, 0, 0]
    assert {table["kind"] for table in tables} == {"Table"}
    assert tables[4]["rows"][0]["cells"][:2] == ["n3", 4]
    (row,) = tables[3]["rows"]
    assert row["object"]["metadata"]["annotations"] == END
    assert row["object"]["metadata"]["resourceVersion"] == "100000007"


async def test_metadata_can_be_watched() -> None:
    async with serve(filled()) as reader, reader.watch(accept=PARTIAL, **WATCH_LIST) as lines:
        first, *_, mark = [await lines.next() for _ in range(4)]

    assert first is not None
    assert mark is not None
    assert first["object"].keys() == {"kind", "apiVersion", "metadata"}
    assert mark["object"]["kind"] == "PartialObjectMetadata"
    assert mark["object"]["metadata"]["annotations"] == END


async def test_a_version_that_is_too_old_is_told_in_the_stream() -> None:
    async with serve(filled()) as reader, reader.watch(accept=TABLE, resourceVersion="5") as lines:
        (event,) = await lines.rest()

    assert event["type"] == "ERROR"
    assert event["object"]["kind"] == "Status"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_a_version_of_the_future_is_told_in_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 0.1)
    async with serve(filled()) as reader, reader.watch(resourceVersion="900000003") as lines:
        (event,) = await lines.rest()

    assert event["object"]["code"] == 504
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_the_version_of_one_replica_is_gone_on_from_at_another() -> None:
    time = [0.0]
    views = [filled(tag=tag, clock=lambda: time[0]) for tag in (1, 2)]
    for moment in (100, 200):
        time[0] = moment
        for view in views:
            view.put(gauge(f"at-{moment}"), revision=moment * 2)
    async with serve(views[0]) as first, serve(views[1]) as second:
        _, document = await first.get()
        version = document["metadata"]["resourceVersion"]
        async with second.watch(resourceVersion=version) as lines:
            again = await lines.next()
            views[1].put(gauge("new"), revision=401)
            later = await lines.next()

    assert again is not None
    assert later is not None
    assert summary([again, later]) == [("ADDED", "at-200"), ("ADDED", "new")]
    versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in (again, later)]
    assert int(version) < versions[0] < versions[1]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sendInitialEvents": "true"}, 422),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"}, 422),
        ({"fieldSelector": "spec.lake=x"}, 400),
        ({"timeoutSeconds": "x"}, 400),
        ({"accept": "application/yaml"}, 406),
    ],
)
async def test_a_malformed_watch_is_refused_before_it_starts(
    options: dict[str, str], code: int
) -> None:
    async with serve(filled()) as reader:
        found, document = await reader.get(watch="true", **options)

    assert (found, document["kind"]) == (code, "Status")


def test_bookmarks_come_every_minute_and_before_the_end() -> None:
    async def main() -> list[tuple[float, str, str]]:
        view, loop = filled(), asyncio.get_running_loop()
        found = []
        async with serve(view) as reader:
            options = {"allowWatchBookmarks": "true", "timeoutSeconds": "150"}
            async with reader.watch(resourceVersion="100000007", **options) as lines:
                start = loop.time()
                view.advance(200)
                while (event := await lines.next()) is not None:
                    version = event["object"]["metadata"]["resourceVersion"]
                    found.append((loop.time() - start, event["type"], version))
                    view.advance(200 + len(found))
                found.append((loop.time() - start, "", ""))
        return found

    *marks, end = virtualtime.run(main)

    assert {(kind, version) for _, kind, version in marks} >= {
        ("BOOKMARK", "200000007"),
        ("BOOKMARK", "201000007"),
    }
    assert 54 <= marks[0][0] <= 67
    assert any(147 <= moment < 150 for moment, *_ in marks)
    assert 150 <= end[0] < 152


def test_a_watch_without_a_timeout_lasts_half_an_hour_to_an_hour() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        async with serve(filled()) as reader, reader.watch(resourceVersion="100000007") as lines:
            start = loop.time()
            assert await lines.next(within=7200) is None
            return loop.time() - start

    assert 1800 <= virtualtime.run(main) <= 3620


async def test_the_end_of_the_process_ends_watches_with_a_last_bookmark() -> None:
    view = filled()
    async with serve(view) as reader:
        version = {"resourceVersion": "100000007"}
        async with (
            reader.watch(allowWatchBookmarks="true", **version) as marked,
            reader.watch(**version) as plain,
        ):
            await watches(reader, 2)
            view.advance(300)
            await reader.serving.drain(over=0.2)
            marks, nothing = await marked.rest(), await plain.rest()
        code, document = await reader.get(watch="true")

    assert [each["object"]["metadata"]["resourceVersion"] for each in marks] == ["300000007"]
    assert nothing == []
    assert reader.serving.watches == 0
    assert (code, document["details"]["retryAfterSeconds"]) == (503, 1)


async def watches(reader: Reader, count: int) -> None:
    """Wait until so many watches are open."""
    async with asyncio.timeout(30):
        while reader.serving.watches != count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


async def test_a_reader_that_goes_away_leaves_nothing_behind() -> None:
    view = filled()
    async with serve(view) as reader:
        async with reader.watch() as lines:
            await lines.take(3)
            lines._response.close()
        for revision in range(200, 210):
            view.put(gauge("n0", level=revision), revision=revision)
            await asyncio.sleep(0.01)
        await watches(reader, 0)

    assert view._waiters == {}


async def test_an_event_is_encoded_once_for_all_who_see_it_alike() -> None:
    view = filled()
    async with serve(view) as reader, contextlib.AsyncExitStack() as streams:
        watching = reader.watch(accept=TABLE, labelSelector="odd!=x")
        lines = [await streams.enter_async_context(watching)]
        lines += [await streams.enter_async_context(reader.watch(accept=TABLE)) for _ in range(9)]
        for each in lines:
            for _ in range(3):
                await each.next()
        view.put(gauge("n3"), revision=101)
        for each in lines:
            await each.next()
        (event,) = view.history.read(0, 10) or ()

    assert len(event._lines) == 1
    assert event.new is not None
    assert len(event.new._made) == 2, "a row, and the metadata in it"


async def sleeper(reader: Reader, version: int = 0) -> socket.socket:
    """Ask for a watch, and never read."""
    loop = asyncio.get_running_loop()
    host, _, port = reader.url.removeprefix("http://").partition(":")
    made = socket.socket()
    made.settimeout(0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(made, (host, int(port)))
    path = f"/gauges?watch=true&resourceVersion={version}"
    await loop.sock_sendall(made, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return made


async def test_readers_that_read_nothing_cost_others_nothing() -> None:
    # 6 MB is more than the buffers of a connection take.
    view = filled(bounds=Bounds(events=20, weight=16 << 20))
    async with serve(view) as reader, reader.watch() as awake:
        await awake.take(3)
        asleep = [await sleeper(reader) for _ in range(10)]
        await watches(reader, 11)
        heard = 0
        for revision in range(1000, 1300):
            view.put(gauge("n0", level=revision, text="x" * 20_000), revision=revision)
            heard += len(await awake.take(1))
        async with asyncio.timeout(60):
            names = await reader.names()
        for each in asleep:
            each.close()

    assert heard == 300
    assert names == ["n0", "n1", "n2"]
    assert view.history.end - view.history.after(view.history.floor) <= 20 + 256


@pytest.mark.parametrize(("objects", "size"), [(300, 40_000), (10, 1 << 20)])
async def test_a_reader_that_reads_nothing_holds_little(objects: int, size: int) -> None:
    view = new_view()
    for number in range(objects):
        view.put(gauge(f"n{number}", text="x" * size), revision=100)
    view.complete()
    async with serve(view) as reader:
        asleep = [await sleeper(reader) for _ in range(20)]
        await watches(reader, 20)
        async with asyncio.timeout(30):
            while not all(map(_owed, reader.transports)):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        held = list(map(_owed, reader.transports))
        for each in asleep:
            each.close()

    assert len(held) == 20
    assert max(held) <= 64 << 10


def _owed(transport: asyncio.Transport) -> int:
    return transport.get_write_buffer_size()


@pytest.mark.parametrize("initial", [True, False], ids=["list", "events"])
async def test_a_reader_that_takes_nothing_keeps_no_memory_of_its_own(*, initial: bool) -> None:
    """Or each of many could hold on to another state of a large object."""
    view = new_view(bounds=Bounds(weight=32 << 20))
    view.put(gauge("n", text="x" * (1 << 20)), revision=100)
    view.complete()
    version = 0 if initial else view.position()
    async with serve(view) as reader:
        asleep = await sleeper(reader, version)
        await watches(reader, 1)
        for revision in range(101, 110):
            view.put(gauge("n", text="x" * (1 << 20), level=revision), revision=revision)
            await asyncio.sleep(0.01)

        await watches(reader, 0)  # it has a minute otherwise
        asleep.close()


def test_a_reader_is_waited_for_as_long_as_the_history_has_what_it_is_told() -> None:
    async def waited(seconds: float, kept: list[bool]) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(TimeoutError):
            async with watching._while(lambda: kept.pop(0), seconds):
                await asyncio.sleep(100)
        return loop.time() - began

    async def main() -> list[float]:
        return [await waited(60, [True] * 60), await waited(60, [True, True, False])]

    assert virtualtime.run(main) == [60, 3]


async def test_a_large_object_comes_whole() -> None:
    view = new_view()
    text = "".join(map(str, range(80_000)))
    view.put(gauge("n", text=text), revision=100)
    view.complete()
    async with serve(view) as reader, reader.watch() as lines:
        first = await lines.next()
        view.put(gauge("n", text=text[::-1]), revision=101)
        second = await lines.next()

    assert first is not None
    assert second is not None
    assert (first["type"], first["object"]["spec"]["text"]) == ("ADDED", text)
    assert (second["type"], second["object"]["spec"]["text"]) == ("MODIFIED", text[::-1])


async def test_a_reader_behind_the_history_is_told_so() -> None:
    view = filled(bounds=Bounds(events=10, weight=16 << 20))
    async with serve(view) as reader, reader.watch() as lines:
        await lines.take(3)
        for revision in range(1000, 1500):
            view.put(gauge("n0", level=revision), revision=revision)
        events = await lines.rest()

    assert events[-1]["type"] == "ERROR"
    assert events[-1]["object"]["code"] == 410
    assert events[-1]["object"]["message"].startswith("too old resource version")


async def test_hundreds_of_watches_hear_of_everything() -> None:
    view = filled()
    count, changes = 300, 20
    async with serve(view) as reader:
        path = "/namespaces/apps/gauges"

        async def follow() -> list[tuple[str, str]]:
            async with reader.watch(path, resourceVersion="100000007") as lines:
                return await lines.take(changes)

        following = [asyncio.create_task(follow()) for _ in range(count)]
        await asyncio.sleep(0)
        for revision in range(200, 200 + changes):
            view.put(gauge("n0", level=revision), revision=revision)
            await asyncio.sleep(0.01)
        heard = await asyncio.gather(*following)

    assert {len(each) for each in heard} == {changes}


async def test_a_watch_of_a_negative_time_is_over_at_once() -> None:
    async with serve(filled()) as reader, reader.watch(timeoutSeconds="-1") as lines:
        heard = await lines.rest()

    assert [event["type"] for event in heard] == ["ADDED"] * 3


async def test_a_reader_of_old_http_gets_its_lines_too() -> None:
    async with serve(filled()) as reader:
        host, _, port = reader.url.removeprefix("http://").partition(":")
        stream, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /gauges?watch=true&timeoutSeconds=1 HTTP/1.0\r\nHost: x\r\n\r\n")
        answer = await stream.read()
        writer.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200")
    assert body.count(b'"type":"ADDED"') == 3


async def test_others_get_their_turn_while_a_reader_selects_from_the_past() -> None:
    view, turns, looks = filled(), 0, list[int]()
    for revision in range(101, 601):
        view.put(gauge("n0", level=revision), revision=revision)

    def read(_: Json) -> str:
        looks.append(turns)
        return ""

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    nothing = Term(field="x", read=read, equal=True, value="no")
    watch = watching.Watch(
        view,
        Whole(resource(view)),
        namespace="",
        selector=Selector(fields=(nothing,)),
        bookmarks=False,
        timeout=-1,
    )
    start = watching.Start(events=view.history.read(0, 500) or (), place=0, since=0)
    counting = asyncio.create_task(count())
    try:
        await watch.run(
            web.StreamResponse(),
            make_mocked_request("GET", "/"),
            start,
            patience=lambda: contextlib.nullcontext(1.0),
        )
    finally:
        counting.cancel()

    assert len(looks) == 4 * 500, "each event before and after, what was missed and what follows"
    assert max(Counter(looks).values()) <= 80, "of a few events in one turn of the loop"
