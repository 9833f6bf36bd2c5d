"""The worker process that loads the engine: ``python -m toolkit.native.engineworker``.

Started by the pool that ``toolkit.native.calls`` makes. It imports little, for it starts in the
way of somebody's first build.
"""

import struct
from collections.abc import Callable

from toolkit.native import library
from toolkit.native.engine import Engine
from toolkit.native.serve import serve

OPERATIONS = (
    "age.open",  # data keys are opened with post-quantum identities
    "kustomize.build",  # a tree of manifests becomes a list of objects
    "notation.verify",  # signatures are judged by a trust policy
    "openpgp.open",  # data keys are opened with OpenPGP keys
    "substitute",  # variables in objects become their values
)

DEADLINE = struct.Struct("<Q")
"""Milliseconds, before the JSON of a request; an answer is a byte with its status and JSON."""


def _operation(engine: Engine, op: str) -> Callable[[bytes], bytes]:
    def run(payload: bytes) -> bytes:
        (milliseconds,) = DEADLINE.unpack_from(payload)
        status, body = engine.call(op, payload[DEADLINE.size :], milliseconds=milliseconds)
        return bytes([status]) + body

    return run


if __name__ == "__main__":
    _engine = Engine(library.find())
    serve({op: _operation(_engine, op) for op in OPERATIONS})
