"""What objects own, read from a server that may be hostile."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from toolkit.apply.owned import growing
from toolkit.apply.owned.growing import Branch
from toolkit.kube.mapper import Resource
from toolkit.objects import GroupVersionKind, Json


class Api:
    """Answers every list with pages that a test names, the last one again and again."""

    def __init__(self, *pages: Json) -> None:
        self._pages = pages
        self.lists = 0
        self.mapper = self

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        return Resource(gvk=gvk, plural=f"{gvk.kind.lower()}s", namespaced=True)

    @asynccontextmanager
    async def watch(
        self, _path: str, *, query: Mapping[str, str], accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        del query, accept
        page = self._pages[min(self.lists, len(self._pages) - 1)]
        self.lists += 1
        yield self._chunks(msgspec.json.encode(page))

    async def _chunks(self, body: bytes) -> AsyncIterator[bytes]:
        yield body


async def grown(api: Any) -> Json:
    node: Json = {"namespace": "shop"}
    branch = Branch(kind=("apps", "StatefulSet"), uid="u", node=node)
    await growing.grow(api, [branch], asyncio.Semaphore(1))
    return node


def pod(name: str, **metadata: Any) -> Json:
    owner = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [{"uid": "u"}]}
    return {"metadata": {**owner, **metadata}}


async def test_pages_are_read_to_the_last_one() -> None:
    api = Api(
        {"metadata": {"continue": "1"}, "items": [pod("b")]},
        {"metadata": {}, "items": [pod("a"), pod("c", namespace="bank")]},
    )

    node = await grown(api)

    assert [child["name"] for child in node["children"]] == ["a", "b"]
    assert "unread" not in node


async def test_empty_pages_without_end_are_given_up() -> None:
    api = Api({"metadata": {"continue": "1"}, "items": []})

    node = await grown(api)

    assert api.lists == 1
    assert "an empty page that is not the last one" in node["unread"]


async def test_pages_without_end_are_bounded() -> None:
    api = Api({"metadata": {"continue": "1"}, "items": [pod(f"p{n}") for n in range(500)]})

    node = await grown(api)

    assert api.lists == 10
    assert node["unread"] == "more than 5000 objects: not all are shown"
