"""Formats are agreed on before anything is done, and content tells no secrets to viewers."""

import pytest
import pytest_asyncio

from tests.contract.apiserver.window import BASE, Reply, Window

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Desk:
    """A toy whose report may be asked for by POST, by somebody who may do anything."""

    def __init__(self, window: Window) -> None:
        self.window = window

    @property
    def asked(self) -> int:
        """Return how often the report was made."""
        return len(self.window.shop.asked(self.window.namespace))

    async def ask(self, method: str, body: bytes | None = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        root = self.window.client_of("root", groups=("system:masters",))
        path = f"{BASE}/namespaces/{self.window.namespace}/toys/ball/report"
        return await self.window.ask(
            path, method=method, certificate=root, headers=named, body=body
        )


@pytest_asyncio.fixture(loop_scope="module")
async def desk(window: Window) -> Desk:
    window.shop.put(window.namespace, "ball")
    return Desk(window)


async def test_nothing_is_done_for_an_answer_that_nobody_takes(desk: Desk) -> None:
    replies = [await desk.ask(method, Accept="text/html") for method in ("GET", "POST")]

    assert [reply.status for reply in replies] == [406, 406]
    assert desk.asked == 0


async def test_what_is_not_json_is_not_read(desk: Desk) -> None:
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
    assert refused[0].json["reason"] == "UnsupportedMediaType"
    assert desk.asked == 0


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"{}", "application/json; charset=utf-8"),
        (None, "application/octet-stream"),
        (None, ""),
    ],
)
async def test_json_and_nothing_are_taken(desk: Desk, body: bytes | None, kind: str) -> None:
    headers = {"Content_Type": kind} if kind else {}

    reply = await desk.ask("POST", body, **headers)

    assert reply.status == 200
    assert desk.asked == 1
