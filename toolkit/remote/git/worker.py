"""The operations of the process that connects to Git servers, one request at a time.

It is killed at a deadline, because no check inside a process can ensure one: a server may send one
byte per second, and parsing a pack may take long. It keeps nothing between requests.
"""

from collections.abc import Callable, Mapping

import msgspec

from toolkit.remote.git import fetch, landing, push
from toolkit.remote.git.wire import CheckoutRequest, CommitRequest, LandRequest, ResolveRequest


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return the operations of a worker, by name."""
    return {"resolve": resolve, "checkout": checkout, "commit": commit, "land": land}


def resolve(payload: bytes) -> bytes:
    """Answer a ``ResolveRequest`` with a ``Resolved``."""
    request = msgspec.msgpack.decode(payload, type=ResolveRequest)
    return msgspec.msgpack.encode(fetch.resolve(request))


def checkout(payload: bytes) -> bytes:
    """Answer a ``CheckoutRequest`` with a ``Checkout``."""
    request = msgspec.msgpack.decode(payload, type=CheckoutRequest)
    return msgspec.msgpack.encode(fetch.checkout(request))


def commit(payload: bytes) -> bytes:
    """Answer a ``CommitRequest`` with a ``Committed``."""
    request = msgspec.msgpack.decode(payload, type=CommitRequest)
    return msgspec.msgpack.encode(push.commit(request))


def land(payload: bytes) -> bytes:
    """Answer a ``LandRequest`` with a ``Landed``."""
    request = msgspec.msgpack.decode(payload, type=LandRequest)
    return msgspec.msgpack.encode(landing.land(request))
