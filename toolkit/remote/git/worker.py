"""The process that talks to Git servers, one request at a time; ``python -m`` runs it.

It is killed at a deadline, which nothing inside a process can promise: a server may send one byte
a second, and a pack may take long to read. It keeps nothing between requests.
"""

import os
from typing import Final

import msgspec

from toolkit.native import serve
from toolkit.remote.git import fetch
from toolkit.remote.git.limits import MiB
from toolkit.remote.git.wire import CheckoutRequest, ResolveRequest

MODULE: Final = "toolkit.remote.git.worker"
MEMORY_LIMIT: Final = 256 * MiB
"""Bytes for ``WorkerPool``. A checkout of 200 MB needs a tenth of it; the rest is for history."""


def main() -> None:
    """Serve requests until the parent ends."""
    os.umask(0o022)
    serve.serve({"resolve": resolve, "checkout": checkout})


def resolve(payload: bytes) -> bytes:
    """Answer a ``ResolveRequest`` with a ``Resolved``."""
    request = msgspec.msgpack.decode(payload, type=ResolveRequest)
    return msgspec.msgpack.encode(fetch.resolve(request))


def checkout(payload: bytes) -> bytes:
    """Answer a ``CheckoutRequest`` with a ``Checkout``."""
    request = msgspec.msgpack.decode(payload, type=CheckoutRequest)
    return msgspec.msgpack.encode(fetch.checkout(request))


if __name__ == "__main__":
    main()
