"""A port of this machine that is known before the process starts that will listen on it.

Whoever asks the kernel for a port and closes it again has only its number: until it is bound again
the kernel may give it to anybody. So it stays bound, by a socket that never listens and gets no
connection (socket(7)); the process binds it too, now and after each restart.
"""

import socket


def reserve(sharing: int) -> socket.socket:
    """Bind a free port of the kernel's choice on loopback; it is held until the socket is closed.

    ``sharing`` is the option that whoever takes the port sets: ``SO_REUSEADDR`` as servers do, or
    ``SO_REUSEPORT``, which keeps out other users too.
    """
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, sharing, 1)
        held.bind(("127.0.0.1", 0))
    except OSError:
        held.close()
        raise
    return held
