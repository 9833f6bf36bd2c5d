"""Lists and gets over HTTP: forms, pages, versions, and what is refused."""

import asyncio
import gzip
import threading

import msgspec
import pytest
import yaml

from apiserver import serving
from apiserver.view import View
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.readserver import Reader, gauge, new_view, serve
from tests.tools.waiting import until
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, Json

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
ITEM = "/namespaces/apps/gauges/n1"


def filled(count: int = 5, **more: object) -> View:
    view = new_view(**more)
    for number in range(count):
        parity = "odd" if number % 2 else "even"
        labels = {"parity": parity}
        view.put(gauge(f"n{number}", level=number, labels=labels, river="Aare"), revision=100)
    view.put(gauge("m", namespace="other", labels={"parity": "odd"}), revision=100)
    view.complete()
    return view


async def test_a_list_holds_everything_in_order() -> None:
    async with serve(filled()) as reader:
        code, document = await reader.get()

    assert code == 200
    assert (document["kind"], document["apiVersion"]) == (
        "GaugeList",
        "gitops.penstock.dev/v1alpha1",
    )
    assert document["metadata"] == {"resourceVersion": "100000007"}
    assert [item["metadata"]["name"] for item in document["items"]] == [
        *(f"n{number}" for number in range(5)),
        "m",
    ]
    assert document["items"][0]["kind"] == "Gauge"


async def test_an_empty_list_is_no_null() -> None:
    view = new_view()
    view.complete()
    async with serve(view) as reader:
        _, plain = await reader.get()
        _, table = await reader.get(accept=TABLE)
        _, partial = await reader.get(accept=PARTIAL.format("List"))

    assert (plain["items"], table["rows"], partial["items"]) == ([], [], [])
    assert plain["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("path", "options", "names"),
    [
        ("/namespaces/other/gauges", {}, ["m"]),
        ("/namespaces/none/gauges", {}, []),
        ("/gauges", {"labelSelector": "parity=odd"}, ["n1", "n3", "m"]),
        ("/gauges", {"labelSelector": "parity=odd", "fieldSelector": "metadata.namespace=apps"},
         ["n1", "n3"]),
        ("/gauges", {"fieldSelector": "metadata.name=n3"}, ["n3"]),
        ("/gauges", {"fieldSelector": "spec.river!=Aare"}, ["m"]),
        ("/gauges", {"resourceVersion": "0"}, ["n0", "n1", "n2", "n3", "n4", "m"]),
        ("/gauges", {"resourceVersion": "0", "limit": "2"}, ["n0", "n1"]),
        ("/namespaces/apps/gauges",
         {"resourceVersion": "90", "resourceVersionMatch": "NotOlderThan"},
         ["n0", "n1", "n2", "n3", "n4"]),
    ],
)  # fmt: skip
async def test_lists_hold_what_is_asked_for(
    path: str, options: dict[str, str], names: list[str]
) -> None:
    async with serve(filled()) as reader:
        assert await reader.names(path, **options) == names


async def test_a_table_has_columns_rows_and_the_metadata_of_objects() -> None:
    async with serve(filled(1)) as reader:
        _, document = await reader.get("/namespaces/apps/gauges", accept=TABLE)

    assert (document["kind"], document["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in document["columnDefinitions"]] == [
        "Name",
        "Level",
        "Age",
        "River",
    ]
    assert document["columnDefinitions"][3]["priority"] == 1
    (row,) = document["rows"]
    name, level, age, river = row["cells"]
    assert (name, level, river) == ("n0", 0, "Aare")
    assert age.endswith(("d", "h", "y"))
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "n0"
    assert "spec" not in row["object"]


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Gauge")],
)
async def test_rows_hold_what_is_asked_for(include: str, kind: str | None) -> None:
    async with serve(filled(1)) as reader:
        _, document = await reader.get(accept=TABLE, includeObject=include)

    row = document["rows"][0]
    assert (row["object"] or {}).get("kind") == kind


async def test_tables_of_the_old_version_are_old_all_through() -> None:
    async with serve(filled(1)) as reader:
        await reader.get(accept=TABLE)
        _, document = await reader.get(accept=TABLE.replace("v1", "v1beta1"))

    assert document["apiVersion"] == "meta.k8s.io/v1beta1"
    assert document["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


async def test_what_a_row_cannot_hold_is_a_bad_request() -> None:
    async with serve(filled()) as reader:
        code, document = await reader.get(accept=TABLE, includeObject="All")

    assert code == 400
    assert document["message"] == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "All":'
        " must be 'Metadata', 'Object', 'None', or empty"
    )


async def test_metadata_alone_can_be_read() -> None:
    async with serve(filled(2)) as reader:
        _, several = await reader.get(accept=PARTIAL.format("List"), limit="1")
        _, one = await reader.get(ITEM, accept=PARTIAL.format(""))

    assert several["kind"] == "PartialObjectMetadataList"
    assert several["metadata"]["remainingItemCount"] == 2
    assert several["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "n1")


async def test_one_is_not_several() -> None:
    async with serve(filled()) as reader:
        answers = [
            await reader.get(accept=PARTIAL.format("")),
            await reader.get(ITEM, accept=PARTIAL.format("List")),
            await reader.get(watch="true", accept=PARTIAL.format("List")),
        ]

    assert [(code, document["reason"]) for code, document in answers] == [
        (406, "NotAcceptable")
    ] * 3


async def test_one_object_is_got_in_each_form() -> None:
    async with serve(filled()) as reader:
        _, plain = await reader.get(ITEM)
        _, table = await reader.get(ITEM, accept=TABLE)
        code, missing = await reader.get("/namespaces/apps/gauges/nope")

    assert plain["spec"] == {"level": 1, "river": "Aare"}
    assert [row["cells"][0] for row in table["rows"]] == ["n1"]
    assert table["metadata"]["resourceVersion"] == plain["metadata"]["resourceVersion"]
    assert code == 404
    assert missing["message"] == 'gauges.gitops.penstock.dev "nope" not found'


@pytest.mark.parametrize(("size", "block"), [(40_000, True), (70_000, False)])
async def test_large_yaml_is_in_flow_style(size: int, *, block: bool) -> None:
    view = new_view()
    view.put(gauge("n", text="x" * size), revision=100)
    view.complete()
    async with serve(view) as reader:
        path = "/namespaces/apps/gauges/n"
        async with reader.request(path, accept="application/yaml") as answer:
            text = await answer.text()

    assert yaml.safe_load(text)["spec"] == {"text": "x" * size}
    assert text.startswith("apiVersion:") is block


async def test_yaml_is_written_one_at_a_time_beside_the_loop() -> None:
    view = new_view()
    view.put(gauge("n", rows=[{"a": str(number)} for number in range(4000)]), revision=100)
    view.complete()
    names: set[str] = set()
    async with serve(view) as reader:
        path = "/namespaces/apps/gauges/n"

        async def ask() -> None:
            async with reader.request(path, accept="application/yaml") as answer:
                await answer.read()

        asked = [asyncio.create_task(ask()) for _ in range(4)]
        while not all(each.done() for each in asked):
            names |= {each.name for each in threading.enumerate() if "yaml" in each.name}
            await asyncio.sleep(0.005)
        await asyncio.gather(*asked)

    assert len(names) == 1


async def test_yaml_reads_back_as_what_it_was() -> None:
    view = filled(1)
    odd = {"sha": "12345e6", "hex": "0x1f", "on": "yes", "empty": "", "lines": "a\nb", "u": "ä☃"}
    view.put(gauge("odd", **odd, none=None, number=5, flag=True), revision=101)
    async with serve(view) as reader:
        async with reader.request("/namespaces/apps/gauges/odd", accept="application/yaml") as got:
            text = await got.text()
            kind = got.headers["Content-Type"]
        _, wanted = await reader.get("/namespaces/apps/gauges/odd")

    assert kind == "application/yaml"
    assert yaml.safe_load(text) == wanted
    assert 'sha: "12345e6"' in text, "Go's YAML would read a number"
    assert text.startswith("apiVersion:")


async def test_people_get_indented_json() -> None:
    async with serve(filled(1)) as reader:
        async with reader.request(ITEM.replace("n1", "n0"), pretty="true") as response:
            text = await response.text()
        async with reader.request(ITEM.replace("n1", "n0")) as response:
            plain = await response.text()

    assert text.startswith('{\n  "apiVersion"')
    assert plain.count("\n") == 1


async def test_large_answers_are_compressed_for_who_takes_it() -> None:
    view = new_view()
    for number in range(300):
        view.put(gauge(f"n{number}", text="x" * 1000), revision=1)
    view.complete()
    async with serve(view) as reader:
        reader.session._auto_decompress = False
        found = {}
        for takes, limit in (("gzip", "0"), ("gzip", "5"), ("identity", "0"), ("br, gzip ", "0")):
            headers = {"Accept-Encoding": takes}
            async with reader.request(headers=headers, limit=limit) as response:
                body = await response.read()
                found[takes, limit] = (response.headers.get("Content-Encoding"), body)

    assert {key: encoding for key, (encoding, _) in found.items()} == {
        ("gzip", "0"): "gzip",
        ("gzip", "5"): None,
        ("identity", "0"): None,
        ("br, gzip ", "0"): "gzip",
    }
    assert gzip.decompress(found["gzip", "0"][1]) == found["identity", "0"][1]


async def pages(reader: Reader, change: object = None, **options: str) -> list[list[str]]:
    """Return the names on each page of two."""
    found, token = [], ""
    while True:
        more = {"continue": token} if token else {}
        code, document = await reader.get(limit="2", **more, **options)
        assert code == 200, document
        found.append([item["metadata"]["name"] for item in document["items"]])
        token = document["metadata"].get("continue", "")
        if not token:
            return found
        if callable(change):
            change()


async def test_pages_agree_with_each_other_while_things_change() -> None:
    view = filled()
    revision = iter(range(200, 300))

    def change() -> None:
        view.put(gauge("n0a"), revision=next(revision))
        view.put(gauge("n2a", level=next(revision)), revision=next(revision))
        for item in view.snapshot().items[-1:]:
            view.remove(item.key, revision=next(revision))

    async with serve(view) as reader:
        assert await pages(reader, change) == [["n0", "n1"], ["n2", "n3"], ["n4", "m"]]


async def test_pages_tell_how_many_come_only_where_that_is_known() -> None:
    async with serve(filled()) as reader:
        _, first = await reader.get(limit="2")
        _, second = await reader.get(limit="2", **{"continue": first["metadata"]["continue"]})
        _, chosen = await reader.get(limit="1", labelSelector="parity=odd")
        assert await pages(reader, labelSelector="parity=odd") == [["n1", "n3"], ["m"]]

    assert first["metadata"]["remainingItemCount"] == 4
    assert second["metadata"]["remainingItemCount"] == 2
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "remainingItemCount" not in chosen["metadata"]
    assert chosen["metadata"]["continue"]


async def test_a_page_of_another_namespace_stays_in_the_namespace() -> None:
    async with serve(filled()) as reader:
        _, first = await reader.get("/namespaces/apps/gauges", limit="2")
        token = {"continue": first["metadata"]["continue"]}

        assert await reader.names("/namespaces/other/gauges", **token) == ["m"]
        assert await reader.names("/namespaces/another/gauges", **token) == []


async def test_a_token_that_is_too_old_tells_how_to_go_on() -> None:
    time = [0.0]
    view = filled(clock=lambda: time[0])
    async with serve(view) as reader:
        _, first = await reader.get(limit="2")
        for revision in range(200, 230):
            time[0] += 50
            view.put(gauge("n9", level=revision), revision=revision)
        code, error = await reader.get(limit="2", **{"continue": first["metadata"]["continue"]})
        token = {"continue": error["metadata"]["continue"]}
        rest = await reader.names(**token)

    assert (code, error["reason"]) == (410, "Expired")
    assert rest == ["n2", "n3", "n4", "n9", "m"]


async def test_a_page_of_another_replica_is_served_if_nothing_changed() -> None:
    time = [0.0]
    views = [filled(tag=tag, clock=lambda: time[0]) for tag in (1, 2)]
    for moment, revision in ((100, 150), (200, 200)):
        time[0] = moment
        for view in views:
            view.advance(revision)
    async with serve(views[0]) as first, serve(views[1]) as second:
        _, page = await first.get(limit="2")
        token = {"continue": page["metadata"]["continue"]}
        code, rest = await second.get(**token)
        views[1].put(gauge("n0", level=9), revision=201)
        before, _ = await second.get(**token)
        views[1].put(gauge("n3", level=9), revision=202)
        behind, _ = await second.get(**token)

    assert (code, [item["metadata"]["name"] for item in rest["items"]]) == (
        200,
        ["n2", "n3", "n4", "m"],
    )
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    assert (before, behind) == (200, 410)


async def test_an_exact_version_is_served_as_it_was_or_not_at_all() -> None:
    view = filled(1)
    async with serve(view) as reader:
        _, first = await reader.get()
        view.put(gauge("new"), revision=200)
        exact = {
            "resourceVersion": first["metadata"]["resourceVersion"],
            "resourceVersionMatch": "Exact",
        }
        names = await reader.names(**exact)
        limited = {"resourceVersion": exact["resourceVersion"], "limit": "10"}
        legacy = await reader.names(**limited)
        code, error = await reader.get(resourceVersion="50", resourceVersionMatch="Exact")

    assert names == legacy == ["n0", "m"]
    assert (code, error["message"]) == (
        410,
        "The resourceVersion for the provided list is too old.",
    )


async def test_a_version_of_the_future_is_waited_for() -> None:
    view = filled(1)
    async with serve(view) as reader:
        asked = asyncio.create_task(reader.get(resourceVersion="300000003"))
        await until(lambda: reader.transports)
        await reader.names()  # asked later, answered before
        early = asked.done()
        view.put(gauge("new"), revision=300)
        code, document = await asked

    assert not early
    assert code == 200
    assert len(document["items"]) == 3


@pytest.mark.parametrize("path", ["/gauges", "/namespaces/apps/gauges/n0"])
async def test_a_version_that_does_not_come_is_said_to_be_too_large(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 0.1)
    async with serve(filled(1)) as reader:
        code, document = await reader.get(path, resourceVersion="300000003")

    assert (code, document["reason"]) == (504, "Timeout")
    assert document["message"] == (
        "Timeout: Too large resource version: 300000003, current: 100000007"
    )
    assert document["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


class Cache:
    """A source that is not complete."""

    gvk = GroupVersionKind("", "v1", "River")
    synced = False
    revision = 0
    last_error = None
    failing_for = 0.0


@pytest.mark.parametrize(
    "path", ["/gauges", "/namespaces/apps/gauges/n0", "/gauges?watch=true", "/gauges?limit=5"]
)
async def test_what_is_not_complete_is_not_shown(path: str) -> None:
    view = new_view()
    view.follow(Cache())
    view.put(gauge("n0"), revision=5)
    async with serve(view) as reader:
        code, document = await reader.get(path)

    assert (code, document["reason"]) == (503, "ServiceUnavailable")
    assert document["message"] == (
        "gauges.gitops.penstock.dev: the cache is not complete yet: River"
    )


@pytest.mark.parametrize(
    "path", ["/gauges", "/namespaces/apps/gauges/n0", "/gauges?watch=true", "/gauges?limit=5"]
)
def test_what_is_out_of_date_is_not_shown_and_comes_back_by_itself(path: str) -> None:
    """An informer that may not watch any more, for a minute; readers ask all the while."""

    async def main() -> list[tuple[int, Json]]:
        server, view = FakeApiServer(), new_view()
        async with server.running() as client, asyncio.TaskGroup() as group:
            gvk = GroupVersionKind("", "v1", "ConfigMap")
            informer = Informer(client, gvk, decode=msgspec.json.Decoder().decode)
            view.follow(informer)
            running = group.create_task(informer.run())
            await informer.wait_synced()
            view.put(gauge("n0"), revision=5)
            view.complete()
            answers = []
            async with serve(view) as reader:

                async def look() -> None:
                    async with reader.request(path) as answer:
                        watched = "watch" in path and answer.status == 200
                        answers.append((answer.status, {} if watched else await answer.json()))

                server.fail("GET", "configmaps", 403, reason="Forbidden", times=1000)
                server.drop_watches()
                await asyncio.sleep(20)
                await look()
                await asyncio.sleep(60)
                await look()
                server.failures.clear()
                await asyncio.sleep(120)
                await look()
            running.cancel()
        return answers

    early, late, back = virtualtime.run(main)

    assert (early[0], late[0], back[0]) == (200, 503, 200)
    assert late[1]["reason"] == "ServiceUnavailable"
    assert "gauges.gitops.penstock.dev: no changes of ConfigMap" in late[1]["message"]
    # clients show it at once, and do not wait ten times before
    assert "retryAfterSeconds" not in late[1].get("details", {})


@pytest.mark.parametrize(
    "options",
    [
        {"continue": "A" * 2000},
        {"continue": "💥"},
        {"limit": "many"},
        {"labelSelector": ",".join(f"!l{number}" for number in range(300))},
    ],
)
async def test_hostile_options_are_bad_requests(options: dict[str, str]) -> None:
    async with serve(filled()) as reader:
        code, document = await reader.get(**options)

    assert (code, document["reason"]) == (400, "BadRequest")


async def test_others_get_their_turn_while_a_large_list_is_made() -> None:
    view = new_view()
    for number in range(3000):
        view.put(gauge(f"n{number}"), revision=1)
    view.complete()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serve(view) as reader:
        counting = asyncio.create_task(count())
        before = turns
        document: Json = (await reader.get(accept=TABLE, labelSelector="!none"))[1]
        counting.cancel()

    assert len(document["rows"]) == 3000
    assert turns - before > 20
