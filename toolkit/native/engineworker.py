"""The operations of a worker process that has the engine.

Started by the pool that ``toolkit.native.calls`` makes. It imports little, because the first build
waits for its start.
"""

import struct
from collections.abc import Callable, Mapping

from toolkit.native import library
from toolkit.native.engine import Engine

OPERATIONS = (
    "age.open",  # data keys are opened with post-quantum identities
    "cel.check",  # expressions are refused, or may be evaluated
    "cel.evaluate",  # expressions get values, within one budget
    "images.message",  # changes become the message of a commit
    "images.set",  # files get the images that policies chose
    "kustomize.build",  # a tree of manifests becomes a list of objects
    "kustomize.footprint",  # questions about a tree become a digest of answers
    "notation.verify",  # signatures are judged by a trust policy
    "openpgp.open",  # data keys are opened with OpenPGP keys
    "substitute",  # variables in objects become their values
    "substitute.text",  # variables in a text become their values
)

DEADLINE = struct.Struct("<Q")
"""Milliseconds, before the JSON of a request; an answer is a byte with its status and JSON."""


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Load the engine, and return each of its operations by name."""
    engine = Engine(library.find())
    return {op: _operation(engine, op) for op in OPERATIONS}


def _operation(engine: Engine, op: str) -> Callable[[bytes], bytes]:
    def run(payload: bytes) -> bytes:
        (milliseconds,) = DEADLINE.unpack_from(payload)
        status, body = engine.call(op, payload[DEADLINE.size :], milliseconds=milliseconds)
        return bytes([status]) + body

    return run
