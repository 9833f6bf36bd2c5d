"""The operations of the process that verifies signatures of Git objects, one at a time.

Keys come from users who may write a Secret, and signatures from users who may push. Parsing them
can take seconds in which no other thread runs, in libraries that are not written in Python. So the
process has bounded memory and is killed at a deadline.
"""

from collections.abc import Callable, Mapping

import msgspec

from toolkit.verify import git
from toolkit.verify.gitsignatures import Request


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return the operations of a worker, by name."""
    return {"verify": _verify}


def _verify(payload: bytes) -> bytes:
    asked = msgspec.msgpack.decode(payload, type=Request)
    proof = git.verify(asked.checkout, mode=asked.mode, keys=asked.keys)
    return msgspec.msgpack.encode(proof)
