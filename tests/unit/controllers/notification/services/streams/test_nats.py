"""What a server that does not speak NATS, or a hostile one, makes of it."""

import asyncio
import ssl
from dataclasses import replace

import pytest

from controllers.notification.services.service import Answer, Line, Target, UnsuitableError
from controllers.notification.services.streams import nats
from tests.fakes.notices import event
from toolkit.errors import PenstockError
from toolkit.remote.errors import HttpError

INFO = b'INFO {"max_payload": 1048576, "headers": true}\r\n'
TARGET = Target(
    type="nats", namespace="apps", name="n", address="nats://nats.example:4222", channel="events"
)


class Server:
    """Says what it is told to, whatever it hears."""

    def __init__(self, says: bytes) -> None:
        self._says = says
        self.heard = b""

    async def __call__(self, *_: object, **__: object) -> Answer:
        raise AssertionError("NATS is not asked over HTTP")

    async def dial(self, host: str, port: int) -> Line:
        assert (host, port) == ("nats.example", 4222)
        reader = asyncio.StreamReader(limit=64 << 10)
        reader.feed_data(self._says)
        reader.feed_eof()
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        writer = asyncio.StreamWriter(_Ear(self), protocol, reader, loop)
        return Line(
            reader=reader, writer=writer, context=ssl.create_default_context(), secure=False
        )


class _Ear(asyncio.Transport):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._server.heard += bytes(data)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True


def send(says: bytes, target: Target = TARGET) -> Server:
    server = Server(says)
    asyncio.run(nats.send(event(), target, server))
    return server


def test_a_pong_after_the_message_ends_it() -> None:
    server = send(INFO + b"PING\r\n+OK\r\nPONG\r\n")

    assert server.heard.startswith(b"CONNECT {")
    assert b"\r\nHPUB events " in server.heard
    assert server.heard.endswith(b"PING\r\nPONG\r\n")


def test_a_server_without_headers_gets_none() -> None:
    heard = send(INFO.replace(b"true", b"false") + b"PONG\r\n").heard

    assert b"\r\nPUB events " in heard
    assert b"NATS/1.0" not in heard


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "does not speak NATS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak NATS"),
        (b"INFO " + b"[" * 10_000 + b"\r\n", "does not speak NATS"),
        (b"INFO " + b" " * 100_000, "does not speak NATS"),
        (INFO, "does not speak NATS"),
        (INFO.replace(b"INFO", b"+OK") + b"PONG\r\n", "does not speak NATS"),
        (INFO + b"+OK\r\n" * 200 + b"PONG\r\n", "does not speak NATS"),
        (INFO + b"-ERR 'Authorization Violation'\r\n", "refuses the login"),
        (INFO + b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
        (INFO + b"-ERR 'your password hunter2 is: wrong'\r\n", "refuses the event: an error"),
    ],
)
def test_what_no_server_of_nats_says_is_an_error(says: bytes, why: str) -> None:
    with pytest.raises(HttpError, match=why) as caught:
        send(says)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"channel": "a.*"}, "not a subject"),
        ({"channel": "a b"}, "not a subject"),
        ({"channel": "a\r\nPUB b 0"}, "not a subject"),
        ({"channel": "a."}, "not a subject"),
        ({"address": "http://nats.example:4222"}, "not one of NATS"),
        ({"address": "nats://nats.example:99999"}, "not a URL"),
        ({"address": "nats://me:hunter2@nats.example"}, "into the Secret"),
        ({"token": "SUABC"}, "not a seed"),
        ({"token": "SU!!!"}, "not a seed"),
        ({"token": "SUAAA" + "A" * 53}, "not a seed"),
    ],
)
def test_what_can_never_be_sent_is_refused_for_good(fields: dict[str, str], why: str) -> None:
    with pytest.raises(UnsuitableError, match=why) as caught:
        send(INFO + b"PONG\r\n", replace(TARGET, **fields))  # type: ignore[arg-type] # strings

    assert "hunter2" not in str(caught.value)


def test_errors_are_of_the_tree() -> None:
    assert issubclass(UnsuitableError, PenstockError)
