"""Connections that this process has taken, and that are not over yet."""

import asyncio
import contextlib
import os
import socket

from tests.tools.waiting import until


async def closed(port: int) -> None:
    """Wait until no connection to a port of ours is left.

    One with TLS ends when the other side has answered its end. What is left when the event loop
    ends counts as forgotten, and fails whatever test comes next.
    """
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined] # nobody else knows
    await until(lambda: port not in {_port(number) for number in selector.get_map()})


def _port(number: int) -> int:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
        if one.family in (socket.AF_INET, socket.AF_INET6):
            return int(one.getsockname()[1])
    return 0
