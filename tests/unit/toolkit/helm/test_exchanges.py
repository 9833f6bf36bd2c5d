"""What a worker may ask for on the way of an action, and how much it is answered."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.tools.waiting import until
from toolkit.helm import exchanges, gates
from toolkit.helm.exchanges import Exchanges
from toolkit.helm.gates import Gate, Response
from toolkit.native.questions import Ask, MalformedError, Reply

RECORDS = "/api/v1/namespaces/team/secrets"


class Server:
    """An API server that answers everything with ``chunks``."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.headers: list[Mapping[str, str]] = []

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        del method, target, body
        self.headers.append(headers)
        yield 200, {"Content-Type": "application/json"}, self._body()

    async def _body(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


class Worker:
    """The other end: what it is told, and whether it reads."""

    def __init__(self, server: Server) -> None:
        self.told: list[tuple[Reply, bytes]] = []
        self.writes = 0
        self.waits = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        storage = gates.records(namespace="team", release="app")
        self.exchanges = Exchanges(
            {
                "release": Gate(client=server, allows=gates.anything),
                "storage": Gate(client=server, allows=storage),
            }
        )
        self.exchanges.begin(self._tell, self._drained)

    def _tell(self, frames: bytes) -> None:
        self.writes += 1
        while frames:
            kind, _, size = struct.unpack_from("<BIQ", frames)
            self.told.append((Reply(kind), frames[13 : 13 + size]))
            frames = frames[13 + size :]

    async def _drained(self) -> None:
        self.waits.set()
        await self.reads.wait()

    def ask(
        self, target: str, identity: str = "release", method: str = "GET", *, number: int = 1
    ) -> None:
        """Send a request, with a header that is not for a worker to choose."""
        headers = {"Accept": ["application/json"], "Impersonate-User": ["admin"]}
        named = {"identity": identity, "method": method, "target": target, "headers": headers}
        head = json.dumps(named).encode()
        self.exchanges.asked(struct.pack("<BII", Ask.SEND, number, len(head)) + head)

    async def hears(self, kind: Reply) -> bytes:
        """Wait for a reply."""
        heard: list[bytes] = await until(lambda: [data for told, data in self.told if told is kind])
        return heard[0]


async def test_request_goes_out_without_headers_of_the_workers_choice() -> None:
    server = Server(b"{}")
    worker = Worker(server)

    worker.ask("/version")
    await worker.hears(Reply.END)

    assert server.headers == [{"Accept": "application/json"}]
    assert worker.exchanges.count == 1


@pytest.mark.parametrize(
    ("target", "identity", "method"),
    [
        (f"{RECORDS}/sh.helm.release.v1.other.v1", "storage", "GET"),
        (f"{RECORDS}/token", "storage", "GET"),
        (f"{RECORDS}?labelSelector=owner%3Dhelm", "storage", "GET"),
        ("/api/v1/nodes", "storage", "GET"),
        ("/api/v1/nodes", "controller", "GET"),
        ("/api/v1/nodes", "release", "CONNECT"),
        ("https://elsewhere.example/", "release", "GET"),
    ],
)
async def test_worker_that_asks_for_more_is_refused(
    target: str, identity: str, method: str
) -> None:
    server = Server()
    worker = Worker(server)

    with pytest.raises(MalformedError, match="which no action may request"):
        worker.ask(target, identity, method)

    assert server.headers == []


@pytest.mark.parametrize("numbers", [(1, 1), range(65)], ids=["twice-one-number", "too-many"])
async def test_worker_that_asks_too_much_at_once_is_refused(numbers: Sequence[int]) -> None:
    worker = Worker(Server(b"{}"))
    *first, last = numbers
    for number in first:
        worker.ask("/version", number=number)

    with pytest.raises(MalformedError, match="too many requests at once"):
        worker.ask("/version", number=last)

    assert worker.exchanges.count == len(first)
    await worker.exchanges.end()


async def test_answer_without_end_is_cut_off() -> None:
    chunk = bytes(1 << 20)
    worker = Worker(Server(*[chunk] * ((exchanges.MAX_ANSWER >> 20) + 1)))

    worker.ask("/api/v1/pods")

    assert b"more than 64 MiB" in await worker.hears(Reply.BROKEN)


async def test_many_large_answers_are_cut_off() -> None:
    worker = Worker(Server(*[bytes(1 << 20)] * 60))

    for _ in range(4):
        worker.told.clear()
        worker.ask("/api/v1/pods")
        await worker.hears(Reply.END)
    worker.told.clear()
    worker.ask("/api/v1/pods")

    assert b"more than 256 MiB" in await worker.hears(Reply.BROKEN)


async def test_nothing_is_read_for_a_worker_that_does_not_read() -> None:
    worker = Worker(Server(b"one", b"two"))
    worker.reads.clear()

    worker.ask("/api/v1/pods")
    assert await worker.hears(Reply.CHUNK) == b"one"
    assert Reply.END not in {kind for kind, _ in worker.told}
    worker.reads.set()
    await worker.hears(Reply.END)

    assert [data for kind, data in worker.told if kind is Reply.CHUNK] == [b"one", b"two"]


async def test_action_waits_as_long_as_an_answer_is_not_complete() -> None:
    worker = Worker(Server(b"{}"))
    asking = worker.exchanges
    assert not asking.waits(0)

    worker.reads.clear()
    worker.ask("/api/v1/pods?watch=true")
    await worker.waits.wait()

    assert asking.waits(0)
    assert not asking.waits(3600)
    worker.reads.set()
    await worker.hears(Reply.END)
    assert not asking.waits(0)


async def test_answer_that_is_complete_wakes_the_worker_once() -> None:
    worker = Worker(Server(b"{", b"}"))

    worker.ask("/version")
    await worker.hears(Reply.END)

    assert [kind for kind, _ in worker.told] == [Reply.HEAD, Reply.CHUNK, Reply.CHUNK, Reply.END]
    assert worker.writes == 1


async def test_nothing_is_said_of_what_was_dropped() -> None:
    worker = Worker(Server(b"one"))
    worker.reads.clear()
    worker.ask("/api/v1/pods")
    await worker.waits.wait()

    worker.exchanges.asked(struct.pack("<BI", Ask.DONE, 0))
    done = len(worker.told)
    worker.ask("/version")  # its first frames come after those that were held
    await until(lambda: len(worker.told) > done)
    worker.reads.set()
    await worker.hears(Reply.END)

    assert [kind for kind, _ in worker.told[done:]] == [Reply.HEAD, Reply.CHUNK, Reply.END]


async def test_drained_worker_hears_that_nothing_is_left() -> None:
    worker = Worker(Server())

    worker.exchanges.asked(struct.pack("<BI", Ask.DONE, 0))

    assert worker.told == [(Reply.DONE, b"")]


async def test_cancelled_action_hears_it_once_it_asks() -> None:
    worker = Worker(Server())

    worker.exchanges.cancel()
    before = list(worker.told)
    worker.ask("/version")

    assert before == [], "a worker that asks nothing would take it for its next request"
    assert worker.told[0] == (Reply.CANCEL, b"")


async def test_action_that_asks_is_cancelled_at_once() -> None:
    worker = Worker(Server())
    worker.exchanges.asked(struct.pack("<BI", Ask.DROP, 1))

    worker.exchanges.cancel()

    assert worker.told == [(Reply.CANCEL, b"")]


async def test_nothing_follows_the_last_reply() -> None:
    worker = Worker(Server())
    worker.ask("/version")
    worker.exchanges.asked(struct.pack("<BI", Ask.DONE, 0))

    worker.exchanges.cancel()

    assert worker.told == [(Reply.DONE, b"")]
