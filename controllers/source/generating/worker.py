"""What the process can do that builds artifacts.

Globs, archives and YAML are strangers'. A build that takes too long, or too much memory, is ended
with the process it runs in, and disturbs nobody else.
"""

from collections.abc import Callable, Mapping

import msgspec

from controllers.source.generating.build import build
from controllers.source.generating.wire import BuildRequest


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return what a worker can do, by name."""
    return {"build": answer}


def answer(payload: bytes) -> bytes:
    """Answer a ``BuildRequest`` with a ``BuildResult``."""
    return msgspec.msgpack.encode(build(msgspec.msgpack.decode(payload, type=BuildRequest)))
