"""Lists say how old they may be, and nothing else does."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from toolkit.helm.recent import Recent

LIST = "/api/v1/namespaces/team/secrets?labelSelector=owner%3Dhelm"
AGED = f"{LIST}&resourceVersion=7&resourceVersionMatch=NotOlderThan"


class Client:
    """Notes what it is asked for; ``unknown`` is its answer to a resourceVersion, if any."""

    def __init__(self, unknown: int = 0) -> None:
        self.asked: list[str] = []
        self.unknown = unknown

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del headers, body

        async def chunks() -> AsyncIterator[bytes]:
            yield target.encode()

        self.asked.append(f"{method} {target}")
        refused = self.unknown and "resourceVersion" in target
        yield self.unknown if refused else 200, {}, chunks()


async def sent(client: Client, method: str, target: str, *, since: int) -> tuple[int, bytes]:
    recent = Recent(client, lambda: since)
    async with recent.exchange(method, target, headers={}, body=b"") as (status, _, answer):
        return status, b"".join([chunk async for chunk in answer])


async def test_a_list_may_be_as_old_as_what_is_known() -> None:
    client = Client()

    answer = await sent(client, "GET", LIST, since=7)

    assert answer == (200, AGED.encode())
    assert client.asked == [f"GET {AGED}"]


@pytest.mark.parametrize(
    ("method", "target", "since"),
    [("GET", LIST, 0), ("GET", "/api/v1/namespaces/team/secrets/a", 7), ("POST", LIST, 7)],
)
async def test_other_requests_are_sent_as_they_are(method: str, target: str, since: int) -> None:
    client = Client()

    await sent(client, method, target, since=since)

    assert client.asked == [f"{method} {target}"]


@pytest.mark.parametrize("status", [410, 504])
async def test_a_resource_version_that_the_server_does_not_know_is_left_out(status: int) -> None:
    client = Client(unknown=status)

    answer = await sent(client, "GET", LIST, since=7)

    assert answer == (200, LIST.encode())
    assert client.asked == [f"GET {AGED}", f"GET {LIST}"]


async def test_another_refusal_is_the_answer() -> None:
    client = Client(unknown=403)

    status, _ = await sent(client, "GET", LIST, since=7)

    assert (status, len(client.asked)) == (403, 1)
