"""Connections of this process that are not over yet."""

import asyncio
import contextlib
import os
import socket

from tests.tools.waiting import until


async def closed(port: int) -> None:
    """Wait until no connection that came to a port of ours is left.

    One with TLS ends when the other side has answered its end. What is left when the event loop
    ends counts as forgotten, and fails whatever test comes next.
    """
    await until(lambda: port not in {_ports(number)[0] for number in _open()})


def made_to(port: int) -> int:
    """Count the connections that this process made to a port and that are not over."""
    return sum(_ports(number)[1] == port for number in _open())


def _open() -> list[int]:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined] # nobody else knows
    return list(selector.get_map())


def _ports(number: int) -> tuple[int, int]:
    """Return our port and the peer's; zero where there is none."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
        if one.family in (socket.AF_INET, socket.AF_INET6):
            ours = int(one.getsockname()[1])
            with contextlib.suppress(OSError):
                return ours, int(one.getpeername()[1])
            return ours, 0
    return 0, 0
