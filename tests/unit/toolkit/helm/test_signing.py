"""Writes carry the field manager, reads and deletions do not."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from toolkit.helm.signing import Signing


class Client:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del headers, body

        async def chunks() -> AsyncIterator[bytes]:
            yield b""

        self.asked.append(f"{method} {target}")
        yield 200, {}, chunks()


@pytest.mark.parametrize(
    ("method", "target", "sent"),
    [
        ("POST", "/secrets", "/secrets?fieldManager=penstock"),
        ("PUT", "/secrets/a", "/secrets/a?fieldManager=penstock"),
        ("PATCH", "/secrets/a?dryRun=All", "/secrets/a?dryRun=All&fieldManager=penstock"),
        ("GET", "/secrets", "/secrets"),
        ("DELETE", "/secrets/a", "/secrets/a"),
    ],
)
async def test_only_writes_are_signed(method: str, target: str, sent: str) -> None:
    client = Client()

    signing = Signing(client, manager="penstock")
    async with signing.exchange(method, target, headers={}, body=b"") as (status, _, __):
        assert status == 200

    assert client.asked == [f"{method} {sent}"]
