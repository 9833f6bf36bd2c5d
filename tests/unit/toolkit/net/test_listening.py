"""A port without TLS: anyone who opens connections and does nothing with them keeps nobody out."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.serving import free_port
from tests.fakes.strangers import MALFORMED, Stranger
from toolkit.net import connections, listening
from toolkit.net.connections import Connections, Limits

PATIENT = Limits(connections=4, request_seconds=60)


class Port:
    """A port on loopback, and who comes."""

    def __init__(self, number: int, connections: Connections) -> None:
        self.number = number
        self.connections = connections
        self.open = contextlib.AsyncExitStack()
        self.accepted: asyncio.Task[None]

    async def ask(self) -> str:
        """Return the answer to a request on a connection of its own."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.number}/") as response,
        ):
            return await response.text()

    async def stranger(self, content: bytes = b"") -> Stranger:
        """Open a connection, and say only this on it."""
        found = await Stranger.open(self.number)
        self.open.push_async_callback(found.close)
        await found.send(content)
        return found


@contextlib.asynccontextmanager
async def serving(
    limits: Limits, answer: Callable[[], Awaitable[web.StreamResponse]] | None = None
) -> AsyncIterator[Port]:
    port = Port(free_port(), Connections(limits))

    async def handle(request: web.Request) -> web.StreamResponse:
        port.connections.work(request.transport)
        return await answer() if answer else web.Response(text="well")

    app = web.Application()
    app.router.add_get("/", handle)
    address = f"127.0.0.1:{port.number}"
    async with (
        listening.on(address, app, port.connections, shutdown_timeout=0.1) as port.accepted,
        port.open,
    ):
        yield port


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: "], ids=["nothing", "half"])
async def test_connections_without_a_request_make_room_the_oldest_first(said: bytes) -> None:
    async with serving(PATIENT) as port:
        strangers = [await port.stranger(said) for _ in range(12)]

        assert await port.ask() == "well"

        for each in strangers[: -PATIENT.connections]:
            await each.ended()
        assert len(port.connections) <= PATIENT.connections


async def test_who_comes_while_all_are_at_work_is_served_later() -> None:
    begun, release = asyncio.Queue[None](), asyncio.Event()

    async def wait() -> web.Response:
        begun.put_nowait(None)
        await release.wait()
        return web.Response(text="done")

    async with serving(Limits(connections=2, handshakes=1), wait) as port:
        asked = [asyncio.create_task(port.ask()) for _ in range(8)]
        for _ in range(2):
            await begun.get()
        async with serving(PATIENT) as other:
            for _ in range(3):
                await other.ask()  # it comes after the eight, and is served
        assert begun.empty()
        release.set()

        assert await asyncio.gather(*asked) == ["done"] * 8


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n"], ids=["nothing", "half a request"])
async def test_who_brings_no_request_in_time_is_dropped(said: bytes) -> None:
    async with serving(Limits(request_seconds=0.3)) as port:
        stranger = await port.stranger(said)

        await stranger.ended()

        assert await port.ask() == "well"


async def test_request_that_begins_late_is_answered_though_the_process_was_held_up() -> None:
    """A client may use a connection that it opened ahead in the moment in which it would end."""
    async with serving(Limits(request_seconds=1)) as port:
        client = await port.stranger()
        while not len(port.connections):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

        client.writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        time.sleep(1.1)  # noqa: ASYNC251 - as a process that waits for a processor

        assert b"well" in await client.answer()


async def test_a_byte_at_a_time_is_no_request() -> None:
    async with serving(Limits(request_seconds=0.3)) as port:
        stranger = await port.stranger(b"GET / HTTP/1.1\r\nX: ")

        async def trickle() -> None:
            while True:
                await stranger.send(b"a")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        await stranger.ended()
        trickling.cancel()


async def test_an_answer_that_takes_long_is_not_interrupted() -> None:
    async def dawdle() -> web.Response:
        await asyncio.sleep(0.6)
        return web.Response(text="done")

    async with serving(Limits(request_seconds=0.3), dawdle) as port:
        assert await port.ask() == "done"


async def test_an_answer_that_nobody_takes_is_not_kept() -> None:
    answers = [web.Response(body=bytes(64 << 20)), web.Response(text="well")]

    async def answer() -> web.Response:
        return answers.pop(0)

    async with serving(Limits(connections=1, answer_seconds=0.3), answer) as port:
        await port.stranger(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

        # There is room for one, so it is answered when that has gone.
        assert await port.ask() == "well"


async def test_a_malformed_header_is_not_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(PATIENT) as port:
        stranger = await port.stranger(MALFORMED)

        answered = await stranger.answer()

    assert answered.startswith(b"HTTP/1.0 400")
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR]
    assert "secret-42" not in caplog.text


async def test_a_bug_is_told_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> web.Response:
        raise RuntimeError("the secret is 42")

    async with serving(PATIENT, fail) as port:
        await port.ask()

    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.error == "RuntimeError"  # type: ignore[attr-defined] - the log's extra
    assert "in fail" in "".join(record.at)  # type: ignore[attr-defined] - the log's extra
    assert "secret is 42" not in caplog.text


async def test_who_goes_away_early_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    gone = asyncio.Event()

    async def late() -> web.Response:
        await gone.wait()
        return web.Response(body=bytes(1 << 20))

    async with serving(Limits(connections=1), late) as port:
        stranger = await port.stranger(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        asked = asyncio.create_task(port.ask())
        stranger.writer.transport.abort()
        await asyncio.sleep(0.1)
        gone.set()
        await asked

    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_nobody_is_accepted_any_more_while_what_is_at_work_goes_on() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def wait() -> web.Response:
        begun.set()
        await release.wait()
        return web.Response(text="done")

    async with serving(PATIENT, wait) as port:
        asked = asyncio.create_task(port.ask())
        await begun.wait()
        port.accepted.cancel()
        await asyncio.wait([port.accepted])

        with pytest.raises(ConnectionError):
            await Stranger.open(port.number)
        release.set()
        assert await asked == "done"


async def test_a_port_is_shared_only_where_both_say_so() -> None:
    address = f"127.0.0.1:{free_port()}"

    def port(*, shared: bool) -> contextlib.AbstractAsyncContextManager[asyncio.Task[None]]:
        return listening.on(address, web.Application(), Connections(PATIENT), shared=shared)

    async with port(shared=True), port(shared=True):
        with pytest.raises(OSError, match="in use"):
            async with port(shared=False):
                pass


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_a_request_that_is_on_its_way_at_the_end_is_answered() -> None:
    async with serving(PATIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(GET)
        await reader.readuntil(b"well")
        writer.write(GET)  # the event loop of the server has not read it yet

    assert (await reader.read()).endswith(b"well")
    writer.close()


async def test_a_server_that_is_cancelled_answers_a_request_that_comes_then() -> None:
    """Processes end their servers in this way."""
    serves: asyncio.Future[Port] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with serving(PATIENT) as port:
            serves.set_result(port)
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    port = await serves
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    writer.write(GET)
    await reader.readuntil(b"well")

    task.cancel()
    asyncio.get_running_loop().call_later(0.01, writer.write, GET)
    await asyncio.wait([task])

    assert (await reader.read()).endswith(b"well")
    writer.close()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_answers_say_that_they_are_the_last_when_replicas_take_over(
    *, streamed: bool
) -> None:
    async def stream() -> web.StreamResponse:
        return web.StreamResponse() if streamed else web.Response(status=403)

    async with serving(PATIENT, stream) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(GET)
        assert b"Connection: close" not in await reader.readuntil(b"\r\n\r\n")
        writer.close()
        port.connections.retire()
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(GET)
        assert b"Connection: close" in await reader.read()
        writer.close()


async def test_while_requests_come_no_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with several open connections may send its next request on any of them."""
    monkeypatch.setattr(connections, "_QUIET", 3000)
    monkeypatch.setattr(connections, "_PATIENCE", 3000)

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET)
        return await reader.readuntil(b"well")

    async def use(kept: Sequence[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
        for reader, writer in kept:
            await ask(reader, writer)
            writer.close()

    async with serving(PATIENT) as port:
        kept = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(3)]
        for each in kept:
            await ask(*each)
        using = asyncio.create_task(use(kept))

    await using


async def test_a_connection_that_has_just_been_opened_may_ask_at_the_end() -> None:
    async with serving(PATIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        asyncio.get_running_loop().call_later(0.01, writer.write, GET)

    assert (await reader.read()).endswith(b"well")
    writer.close()


async def test_connections_that_only_the_kernel_has_accepted_may_ask_at_the_end() -> None:
    async with serving(PATIENT) as port:
        await port.ask()
        # From here the event loop of the server has no turn until the block ends.
        clients = [socket.create_connection(("127.0.0.1", port.number)) for _ in range(3)]
        for each in clients:
            each.sendall(GET)

    for each in clients:
        with each:
            each.settimeout(5)
            assert each.makefile("rb").read().endswith(b"well")


async def test_a_connection_that_does_nothing_ends_with_the_port() -> None:
    async with serving(PATIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(GET)
        await reader.readuntil(b"well")

    assert await reader.read() == b""
    assert len(port.connections) == 0
    writer.close()
