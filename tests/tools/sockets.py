"""Connections of this process that are not over yet."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

from tests.tools.waiting import until

_STEPS_TO_BE_KNOWN = 3
"""Turns of the event loop from the moment it has accepted a connection until the server knows."""


def listening(host: str, port: int = 0) -> socket.socket:
    """Listen there; the kernel chooses port 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


async def stop_accepting(listening: socket.socket) -> None:
    """Accept nothing more here, and have the server know what was accepted.

    asyncio forgets a connection that is accepted just before its server is closed: nobody ever
    closes it.
    """
    asyncio.get_running_loop().remove_reader(listening)
    for _ in range(_STEPS_TO_BE_KNOWN):
        await asyncio.sleep(0)


async def end(port: int) -> None:
    """End every connection that came to a port of ours, where nobody listens any more.

    A server ends those that it knows of, and not one whose handshake was not over.
    """

    def ended() -> bool:
        left = _came_to(port)
        for number in left:
            with contextlib.suppress(OSError), _duplicate(number) as one:
                one.shutdown(socket.SHUT_RDWR)
        return not left

    await until(ended)


async def closed(port: int) -> None:
    """Wait until no connection that came to a port of ours is left.

    One with TLS ends when the other side has answered its end. What is left when the event loop
    ends counts as forgotten, and fails whatever test comes next.
    """
    await until(lambda: not _came_to(port))


def made_to(port: int) -> int:
    """Count the connections that this process made to a port and that are not over."""
    return sum(_ports(number)[1] == port for number in _open())


def _came_to(port: int) -> list[int]:
    return [number for number in _open() if _ports(number)[0] == port]


def _open() -> list[int]:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined] # nobody else knows
    return list(selector.get_map())


@contextlib.contextmanager
def _duplicate(number: int) -> Iterator[socket.socket]:
    duplicate = os.dup(number)
    try:
        one = socket.socket(fileno=duplicate)
    except OSError:  # it is not a socket
        os.close(duplicate)
        raise
    with one:
        yield one


def _ports(number: int) -> tuple[int, int]:
    """Return our port and the peer's; zero where there is none."""
    with contextlib.suppress(OSError), _duplicate(number) as one:
        if one.family in (socket.AF_INET, socket.AF_INET6):
            ours = int(one.getsockname()[1])
            with contextlib.suppress(OSError):
                return ours, int(one.getpeername()[1])
            return ours, 0
    return 0, 0
