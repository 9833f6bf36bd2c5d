"""Ports are shared with our own replicas, and nobody takes one from us by being there first."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from toolkit.net import accepting
from toolkit.net.accepting import Acceptor
from toolkit.net.connections import Connections, Limits


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


def closed(*sockets: socket.socket) -> None:
    for each in sockets:
        each.close()


def test_replicas_on_one_machine_share_a_port() -> None:
    (first,) = accepting.bind("127.0.0.1:0")
    (second,) = accepting.bind(f"127.0.0.1:{first.getsockname()[1]}")

    assert first.getsockname() == second.getsockname()
    closed(first, second)


def test_a_port_that_somebody_does_not_share_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        accepting.bind(f"127.0.0.1:{port}")


def test_a_port_that_we_do_not_share_is_an_error() -> None:
    (first,) = accepting.bind("127.0.0.1:0")

    with pytest.raises(OSError, match="in use"):
        accepting.bind(f"127.0.0.1:{first.getsockname()[1]}", shared=False)
    closed(first)


def test_a_port_that_is_taken_on_one_address_is_taken(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        accepting.bind(f":{port}")


def test_without_a_host_all_addresses_are_listened_on() -> None:
    listening = accepting.bind(":0")

    addresses = {each.getsockname()[0] for each in listening}

    assert "0.0.0.0" in addresses  # noqa: S104 - what the port is bound to
    closed(*listening)


async def test_ports_are_closed_at_the_end() -> None:
    listening = accepting.bind("127.0.0.1:0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    acceptor = Acceptor(asyncio.Protocol, context, Connections(Limits()))
    task = asyncio.create_task(acceptor.run(listening))
    await asyncio.sleep(0)

    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert [each.fileno() for each in listening] == [-1]


class Late(socket.socket):
    """A listening socket that clients reach in the instant before it is closed."""

    clients: list[socket.socket]

    def close(self) -> None:
        """Let them come, and close."""
        if self.fileno() != -1:
            self.clients = [_connecting(self.getsockname()) for _ in range(12)]
        super().close()


def _connecting(address: tuple[str, int]) -> socket.socket:
    client = socket.socket()
    client.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        client.connect(address)
    return client


class Answering(asyncio.Protocol):
    """Sends one byte to each client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"a")
        transport.close()


async def test_clients_that_come_when_one_replica_ends_are_served_by_the_other() -> None:
    (bound,) = accepting.bind("127.0.0.1:0")
    ending = Late(fileno=bound.detach())
    ending.settimeout(0)
    (staying,) = accepting.bind(f"127.0.0.1:{ending.getsockname()[1]}")
    tasks = [
        asyncio.create_task(Acceptor(Answering, None, Connections(Limits())).run([each]))
        for each in (ending, staying)
    ]
    await asyncio.sleep(0)

    tasks[0].cancel()
    await asyncio.wait([tasks[0]])

    loop = asyncio.get_running_loop()
    answers = [loop.sock_recv(each, 1) for each in ending.clients]
    for each in ending.clients:
        await _connected(each)
    assert await asyncio.gather(*answers) == [b"a"] * 12
    closed(*ending.clients)
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])


async def _connected(client: socket.socket) -> None:
    """Wait until the kernel has connected, which tries again after a second."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_writer(client, ready.set)
    await ready.wait()
    loop.remove_writer(client)


async def test_a_client_without_a_handshake_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor does an error of TLS reach the log as one."""
    (listening,) = accepting.bind("127.0.0.1:0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    acceptor = Acceptor(asyncio.Protocol, context, Connections(Limits()))
    task = asyncio.create_task(acceptor.run([listening]))

    for _ in range(3):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    assert not task.done()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
