"""What an identity that only reads lets through, and which Secrets it saw."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolkit.errors import AccessDeniedError
from toolkit.helm.reading import Reading

ONE = "/api/v1/namespaces/team/secrets/s"
SECRET = {"kind": "Secret", "data": {"key": "d29yZA=="}}


class Server:
    """Answers everything with one document, in pieces."""

    def __init__(self, answer: bytes, status: int = 200) -> None:
        self.answer = answer
        self.status = status
        self.asked: list[str] = []

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del headers, body
        self.asked.append(f"{method} {target}")

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(self.answer), 1 << 20):
                yield self.answer[at : at + (1 << 20)]

        yield self.status, {}, chunks()


async def read(server: Any, target: str = ONE, method: str = "GET") -> tuple[Reading, bytes]:
    reading = Reading(server)
    async with reading.exchange(method, target, headers={}, body=b"") as (_, _, chunks):
        return reading, b"".join([chunk async for chunk in chunks])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_is_written(method: str) -> None:
    server = Server(b"{}")

    with pytest.raises(AccessDeniedError, match=method):
        await read(server, method=method)

    assert server.asked == []


@pytest.mark.parametrize("answer", [SECRET, {"items": [SECRET, {"data": None}]}])
@pytest.mark.parametrize("target", [ONE, "/api/v1/secrets?limit=5", "/api/v1/%73ecrets"])
async def test_values_of_secrets_are_known_in_both_forms(answer: Any, target: str) -> None:
    body = json.dumps(answer).encode()

    reading, passed = await read(Server(body), target)

    assert passed == body
    assert reading.values == {"word", "d29yZA=="}
    assert not reading.unknown


@pytest.mark.parametrize("answer", [b"k8s\x00protobuf", b'{"items": 1}', b" " * (9 << 20)])
async def test_answer_that_cannot_be_read_leaves_values_unknown(answer: bytes) -> None:
    reading, passed = await read(Server(answer))

    assert passed == answer
    assert reading.unknown


async def test_answer_that_is_cut_off_leaves_values_unknown() -> None:
    reading = Reading(Server(json.dumps(SECRET).encode() + b" " * (2 << 20)))

    async with reading.exchange("GET", ONE, headers={}, body=b"") as (_, _, chunks):
        await anext(chunks)
        await chunks.aclose()  # type: ignore[attr-defined]  # a generator

    assert reading.unknown


@pytest.mark.parametrize(("target", "status"), [("/api/v1/configmaps", 200), (ONE, 403)])
async def test_other_answers_are_passed_on_unread(target: str, status: int) -> None:
    reading, passed = await read(Server(b"what you like", status), target)

    assert passed == b"what you like"
    assert (reading.values, reading.unknown) == (set(), False)
