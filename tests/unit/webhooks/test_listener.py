"""The port: anyone who opens connections and does nothing with them keeps nobody else out."""

import asyncio
import io
import logging

import pytest

from tests.fakes.gateserver import BODY, HEADERS, PATIENT, listening
from tests.fakes.strangers import MALFORMED
from toolkit.net.connections import Limits
from webhooks.plugin import Answer
from webhooks.request import Request


async def test_handshakes_that_nobody_finishes_keep_nobody_out() -> None:
    async with listening(PATIENT) as port:
        strangers = [await port.stranger(tls=False) for _ in range(12)]

        assert await port.ask(await port.client())

        for each in strangers[: -PATIENT.handshakes]:
            await each.ended()


async def test_idle_connections_make_room_the_oldest_first() -> None:
    async with listening(PATIENT) as port:
        strangers = [await port.stranger(tls=True) for _ in range(12)]

        assert await port.ask(await port.client())

        for each in strangers[: -PATIENT.connections]:
            await each.ended()
        assert len(port.endpoint.connections) <= PATIENT.connections


async def test_a_request_that_is_never_finished_makes_room_too() -> None:
    async with listening(PATIENT) as port:
        strangers = [await port.stranger(tls=True) for _ in range(12)]
        for each in strangers[-PATIENT.connections :]:
            each.writer.write(b"POST /admit/test HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n")
            await each.writer.drain()

        assert await port.ask(await port.client())


async def test_a_review_at_work_is_not_interrupted() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def wait(_: Request) -> Answer:
        begun.set()
        await release.wait()
        return Answer()

    async with listening(PATIENT, wait) as port:
        asked = asyncio.create_task(port.ask(await port.client()))
        await begun.wait()
        strangers = [await port.stranger(tls=True) for _ in range(12)]
        await strangers[0].ended()

        release.set()
        assert await asked


async def test_who_comes_while_all_are_at_work_is_served_later() -> None:
    begun, release = asyncio.Queue[None](), asyncio.Event()

    async def wait(_: Request) -> Answer:
        begun.put_nowait(None)
        await release.wait()
        return Answer()

    limits = Limits(connections=2, handshakes=4, handshake_seconds=60, request_seconds=60)
    async with listening(limits, wait) as port:
        first = [asyncio.create_task(port.ask(await port.client())) for _ in range(2)]
        for _ in first:
            await begun.get()
        late = [asyncio.create_task(port.ask(await port.client())) for _ in range(6)]
        await asyncio.sleep(0.1)
        release.set()

        assert all(await asyncio.gather(*first, *late))


async def test_a_client_that_was_idle_goes_on_with_another_connection() -> None:
    async with listening(PATIENT) as port:
        client = await port.client()
        assert await port.ask(client)
        strangers = [await port.stranger(tls=True) for _ in range(12)]
        await strangers[0].ended()

        assert await port.ask(client)


async def test_an_answer_that_nobody_takes_is_not_kept() -> None:
    limits = Limits(connections=1, answer_seconds=0.3)

    async def convert(_: bytes) -> bytes:
        return bytes(64 << 20)

    async with listening(limits, convert=convert) as port:
        stranger = await port.stranger(tls=True)
        head = "POST /convert HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        stranger.writer.write(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        await stranger.writer.drain()

        # There is room for one, so it is answered when that has gone.
        assert await port.ask(await port.client())


@pytest.mark.parametrize("tls", [False, True], ids=["no handshake", "no request"])
async def test_silence_ends_after_some_time(*, tls: bool) -> None:
    limits = Limits(handshake_seconds=0.3, request_seconds=0.3)
    async with listening(limits) as port:
        client = await port.client()
        assert await port.ask(client)
        used = len(port.endpoint.connections)
        stranger = await port.stranger(tls=tls)

        await stranger.ended()

        # Who has brought a request may rest.
        assert len(port.endpoint.connections) == used
        assert await port.ask(client)


async def test_a_malformed_header_is_not_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(None) as port:
        stranger = await port.stranger(tls=True)
        await stranger.send(MALFORMED)

        answered = await stranger.answer()

    assert answered.startswith(b"HTTP/1.0 400")
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR]
    assert "secret-42" not in caplog.text


async def test_nobody_fills_the_memory_with_headers() -> None:
    async with listening(None) as port:
        stranger = await port.stranger(tls=True)

        await stranger.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")
        for number in range(100):
            await stranger.send(b"X-%d: %s\r\n" % (number, b"a" * 8000))
        await stranger.send(b"\r\n")

        await stranger.ended()
        assert await port.ask(await port.client())


async def test_large_bodies_are_no_headers() -> None:
    async with listening(None) as port:
        client = await port.client()
        large = BODY + b" " * (6 << 20)

        for _ in range(2):
            assert await port.ask(client, large)
        assert len(port.endpoint.connections) == 1


async def test_a_list_is_converted_whole() -> None:
    async def convert(body: bytes) -> bytes:
        return str(len(body)).encode()

    async with listening(None, convert=convert) as port:
        client, size = await port.client(), 20 << 20

        async with client.post(
            "/convert", data=io.BytesIO(bytes(size)), headers=HEADERS
        ) as response:
            assert await response.text() == str(size)


async def test_who_is_refused_before_the_body_learns_why() -> None:
    async with listening(None) as port:
        client = await port.client()
        large = bytes(1 << 20)

        async with client.post("/admit/test", data=large) as response:
            assert response.status == 415
        async with client.post("/admit/other", data=large) as response:
            assert response.status == 404
