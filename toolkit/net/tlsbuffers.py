"""The buffers into which asyncio reads TLS connections, of this process's servers and clients."""

from asyncio import sslproto
from typing import Final

_READ: Final = 32 << 10


def limit() -> None:
    """Make TLS connections of this process read two records at a time.

    asyncio allocates 256 KiB per connection before it has received a byte, for any client of a
    server and for each watch, and as much again for the time of each read. There is no parameter
    for it.
    """
    sslproto.SSLProtocol.max_size = _READ
