"""Have the kernel finish the connections of a listening socket, and begin no new ones.

To close a listening socket resets the connections that the kernel has made for it and that nobody
has accepted. One can be made between the last accept and the close, so accepting until there is
none does not suffice. Linux has no call for it, but a socket may have a filter: with this one the
first packet of a connection (SYN) is dropped, and all others pass. The client sends the packet
again after a second. By then it reaches another process that listens on the port
(``SO_REUSEPORT``), or the client learns at once that there is none.
"""

import ctypes
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

_SO_ATTACH_FILTER: Final = 26
"""``asm-generic/socket.h``; Python has no name for it."""
_FLAGS: Final = 13
"""Offset of the flags in a TCP header, where the packets of such a filter begin."""
_SYN: Final = 0x02
_INSTRUCTION: Final = "=HBBI"
"""``struct sock_filter``: operation, jump if true, jump if false, argument."""
_PROGRAM: Final = (
    (0x30, 0, 0, _FLAGS),  # load the byte with the flags
    (0x45, 0, 1, _SYN),  # if SYN is set
    (0x06, 0, 0, 0),  # drop the packet
    (0x06, 0, 0, 0xFFFFFFFF),  # else pass it
)


def drop(listening: socket.socket) -> None:
    """Begin no more connections; those that have begun can still be accepted.

    Where the kernel has no such filters, nothing changes.
    """
    if sys.platform != "linux":
        return
    program = b"".join(struct.pack(_INSTRUCTION, *each) for each in _PROGRAM)
    kept = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(_PROGRAM), ctypes.addressof(kept))
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
