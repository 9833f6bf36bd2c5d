"""Formats are agreed on before anything is done, and content tells no secrets to viewers."""

import dataclasses

import msgspec
import pytest

from apiserver.resource import Resource
from tests.contract.apiserver.conftest import BASE, Reply, Window
from tests.contract.apiserver.test_hardening import trusted


class Desk:
    """Toys whose report may be asked for by POST, by somebody who may do anything."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.path = f"{BASE}/namespaces/{window.namespace}/toys/ball/report"
        self._made = window.shop.resource

    def resource(self) -> Resource:
        made = self._made()
        (report,) = (each for each in made.subresources if each.name == "report")
        posted = dataclasses.replace(report, verbs=("get", "create"))
        return dataclasses.replace(made, subresources=(posted,))

    async def ask(self, method: str, body: bytes | None = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        root = self.window.client_of("root", groups=("system:masters",))
        return await self.window.ask(
            self.path, method=method, certificate=root, headers=named, body=body
        )


async def desk_of(window: Window) -> Desk:
    desk = Desk(window)
    window.shop.resource = desk.resource  # type: ignore[method-assign] - the test's own shop
    window.shop.put(window.namespace, "ball")
    await window.start()
    await trusted(window)
    return desk


async def test_nothing_is_done_for_an_answer_that_nobody_takes(window: Window) -> None:
    desk = await desk_of(window)

    replies = [await desk.ask(method, Accept="text/html") for method in ("GET", "POST")]

    assert [reply.status for reply in replies] == [406, 406]
    assert window.shop.calls == []


async def test_what_is_not_json_is_not_read(window: Window) -> None:
    desk = await desk_of(window)

    refused = [
        await desk.ask("POST", b"x", Content_Type=kind)
        for kind in (
            "text/xml",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "nonsense",
        )
    ]

    assert [reply.status for reply in refused] == [415] * 4
    assert msgspec.json.decode(refused[0].body)["reason"] == "UnsupportedMediaType"
    assert window.shop.calls == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"{}", "application/json; charset=utf-8"),
        (None, "application/octet-stream"),
        (None, ""),
    ],
)
async def test_json_and_nothing_are_taken(window: Window, body: bytes | None, kind: str) -> None:
    desk = await desk_of(window)
    headers = {"Content_Type": kind} if kind else {}

    reply = await desk.ask("POST", body, **headers)

    assert reply.status == 200
    assert len(window.shop.calls) == 1
