"""The operations of the process that builds artifacts.

Globs, archives and YAML are untrusted. A build that takes too long, or too much memory, ends with
the process it runs in, and affects no other build.
"""

from collections.abc import Callable, Mapping

import msgspec

from controllers.source.generating.build import build
from controllers.source.generating.wire import BuildRequest


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return the operations of a worker, by name."""
    return {"build": answer}


def answer(payload: bytes) -> bytes:
    """Answer a ``BuildRequest`` with a ``BuildResult``."""
    return msgspec.msgpack.encode(build(msgspec.msgpack.decode(payload, type=BuildRequest)))
