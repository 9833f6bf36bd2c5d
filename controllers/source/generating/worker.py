"""The process that builds artifacts; ``python -m`` runs it.

Globs, archives and YAML are strangers'. A build that takes too long, or too much memory, is ended
with the process it runs in, and disturbs nobody else.
"""

import os

import msgspec

from controllers.source.generating.build import build
from controllers.source.generating.wire import BuildRequest
from toolkit.native import serve


def main() -> None:
    """Serve requests until the parent ends."""
    os.umask(0o077)
    serve.serve({"build": answer})


def answer(payload: bytes) -> bytes:
    """Answer a ``BuildRequest`` with a ``BuildResult``."""
    return msgspec.msgpack.encode(build(msgspec.msgpack.decode(payload, type=BuildRequest)))


if __name__ == "__main__":
    main()
