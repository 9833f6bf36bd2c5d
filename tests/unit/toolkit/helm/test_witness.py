"""What an action writes is seen in the answers, which pass unchanged."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from toolkit.helm.witness import Witness
from toolkit.objects import Json

WRITES = frozenset({"PATCH", "DELETE"})
OBJECT = {"kind": "ConfigMap", "metadata": {"name": "x"}}


class Client:
    """Answers with the same chunks each time."""

    def __init__(self, status: int, *chunks: bytes) -> None:
        self.status, self.chunks = status, chunks

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del method, target, headers, body

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in self.chunks:
                yield chunk

        yield self.status, {}, chunks()


async def sent(
    method: str, target: str, *chunks: bytes, status: int = 200
) -> tuple[bytes, list[tuple[str, str, Json]]]:
    """Return what the action got, and what was seen."""
    seen: list[tuple[str, str, Json]] = []
    client = Client(status, *chunks)
    witness = Witness(client, lambda *told: seen.append(told), methods=WRITES)
    async with witness.exchange(method, target, headers={}, body=b"") as (_, _, answer):
        return b"".join([chunk async for chunk in answer]), seen


async def test_answer_to_a_write_is_seen_whole() -> None:
    text = json.dumps(OBJECT).encode()

    answer, seen = await sent("PATCH", "/api/x?force=true", text[:7], text[7:])

    assert answer == text
    assert seen == [("PATCH", "/api/x", OBJECT)]


@pytest.mark.parametrize(
    ("method", "target", "status", "body"),
    [
        ("GET", "/api/x", 200, b"{}"),
        ("PATCH", "/api/x?dryRun=All", 200, b"{}"),
        ("PATCH", "/api/x", 403, b"{}"),
        ("PATCH", "/api/x", 200, b"k8s\x00 protobuf"),
        ("PATCH", "/api/x", 200, b"[1]"),
        ("PATCH", "/api/x", 200, b"[" * 100_000),
    ],
    ids=["read", "dry run", "refusal", "no JSON", "no object", "too deep"],
)
async def test_other_answers_pass_unseen(
    method: str, target: str, status: int, body: bytes
) -> None:
    answer, seen = await sent(method, target, body, status=status)

    assert answer == body
    assert seen == []
