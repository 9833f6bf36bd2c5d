"""A reserved port is free for the server that it is meant for, and for nobody else."""

import contextlib
import socket

import pytest
from aiohttp import ClientSession, web

from toolkit.net import listening, reserving
from toolkit.net.connections import Connections, Limits

OPTIONS = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def number(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port


@pytest.mark.parametrize("sharing", OPTIONS)
async def test_the_server_listens_on_it_and_does_so_again(sharing: int) -> None:
    shared = sharing == socket.SO_REUSEPORT
    with contextlib.closing(reserving.reserve(sharing)) as held:
        address = f"127.0.0.1:{number(held)}"
        answers = []
        for _ in range(2):
            async with (
                listening.on(address, web.Application(), Connections(Limits()), shared=shared),
                ClientSession() as session,
                session.get(f"http://{address}/") as response,
            ):
                answers.append(response.status)

    assert answers == [404, 404]


@pytest.mark.parametrize("sharing", OPTIONS)
def test_nobody_who_does_not_share_it_gets_it(sharing: int) -> None:
    with (
        contextlib.closing(reserving.reserve(sharing)) as held,
        socket.socket() as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(("127.0.0.1", number(held)))


def test_a_server_does_not_get_one_that_other_users_are_kept_out_of() -> None:
    with (
        contextlib.closing(reserving.reserve(socket.SO_REUSEPORT)) as held,
        socket.socket() as other,
    ):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", number(held)))


def test_nobody_is_heard_before_the_server_listens() -> None:
    with (
        contextlib.closing(reserving.reserve(socket.SO_REUSEADDR)) as held,
        pytest.raises(ConnectionRefusedError),
    ):
        socket.create_connection(("127.0.0.1", number(held)))
