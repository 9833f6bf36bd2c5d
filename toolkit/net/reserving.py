"""Reserve a port of this machine for a process that will listen on it later.

A program that asks the kernel for a port and closes the socket has only the number: the kernel may
give the port to another program before it is bound again. So a socket that never listens, and
therefore gets no connection, keeps the port bound (socket(7)). The process binds the port as well,
at its start and after each restart.
"""

import socket


def reserve(sharing: int) -> socket.socket:
    """Bind a free port of the kernel's choice on loopback; it is held until the socket is closed.

    ``sharing`` is the socket option that the process sets to bind the port too: ``SO_REUSEADDR``,
    as servers do, or ``SO_REUSEPORT``, which also keeps out processes of other users.
    """
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, sharing, 1)
        held.bind(("127.0.0.1", 0))
    except OSError:
        held.close()
        raise
    return held
