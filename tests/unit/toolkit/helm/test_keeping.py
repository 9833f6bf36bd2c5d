"""A kept Namespace is never deleted; every other request passes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from toolkit.apply.retention import Retention
from toolkit.helm.keeping import Keeping
from toolkit.objects import ObjectRef


class Client:
    """Answers 200, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del headers, body
        self.asked.append(f"{method} {target}")

        async def chunks() -> AsyncIterator[bytes]:
            yield b"{}"

        yield 200, {}, chunks()


async def sent(
    method: str, target: str, *names: str, groups: frozenset[str] = frozenset()
) -> tuple[int, bytes, list[str], list[str]]:
    """Return status and body of the answer, what was kept, and what went out."""
    client, kept = Client(), list[ObjectRef]()

    async def in_use(name: str) -> bool:
        return not name.startswith("unused")

    keeps = Retention(namespaces=frozenset(names), groups=groups)
    keeping = Keeping(client, keeps, kept.append, in_use=in_use)
    async with keeping.exchange(method, target, headers={}, body=b"") as (status, _, chunks):
        answer = b"".join([chunk async for chunk in chunks])
    return status, answer, [ref.name for ref in kept], client.asked


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/namespaces/team",
        "/api/v1/namespaces/team?propagationPolicy=Background",
        "//api/v1//namespaces/team/",
        "/api/v1/namespaces/%74eam",
        "/api/v1/namespaces",
        "/api/v1/namespaces?labelSelector=a%3Db",
    ],
)
async def test_kept_namespace_is_not_deleted(target: str) -> None:
    status, body, kept, asked = await sent("DELETE", target, "team")

    assert (status, json.loads(body)["reason"]) == (404, "NotFound")
    assert kept == ["team"]
    assert asked == []


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/api/v1/namespaces/team"),
        ("PATCH", "/api/v1/namespaces/team"),
        ("DELETE", "/api/v1/namespaces/other"),
        ("DELETE", "/api/v1/namespaces/team/configmaps/team"),
        ("DELETE", "/api/v1/namespaces/team/configmaps"),
        ("DELETE", "/apis/example.com/v1/namespaces/team"),
    ],
)
async def test_other_requests_pass(method: str, target: str) -> None:
    status, _, kept, asked = await sent(method, target, "team")

    assert (status, kept, asked) == (200, [], [f"{method} {target}"])


async def test_nothing_is_kept_on_other_clusters() -> None:
    status, _, kept, asked = await sent("DELETE", "/api/v1/namespaces")

    assert (status, kept, len(asked)) == (200, [], 1)


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (f"{_DEFINITIONS}/apps.ours.example", ["apps.ours.example"]),
        (f"{_DEFINITIONS}/apps%2Eours.example?propagationPolicy=Foreground", ["apps.ours.example"]),
        (f"{_DEFINITIONS}/unused.ours.example", []),
        (f"{_DEFINITIONS}/apps.theirs.example", []),
        (f"{_DEFINITIONS}/ours.example", []),
        (_DEFINITIONS, ["*.ours.example"]),
    ],
)
async def test_definition_of_a_kept_group_is_not_deleted_while_it_is_in_use(
    target: str, kept: list[str]
) -> None:
    status, body, found, asked = await sent(
        "DELETE", target, "team", groups=frozenset({"ours.example"})
    )

    assert found == kept
    assert (status, bool(asked)) == ((404, False) if kept else (200, True))
    if kept:
        assert "customresourcedefinitions" in json.loads(body)["message"]
