"""What the process can do that judges signatures of Git objects, one at a time.

Keys come from anyone who may write a Secret, and signatures from anyone who may push. Reading them
can take seconds in which no other thread runs, and is done by libraries that are not written in
Python: whatever they do to this process, it is killed at a deadline and has only so much memory.
"""

from collections.abc import Callable, Mapping

import msgspec

from toolkit.verify import git
from toolkit.verify.gitsignatures import Request


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return what a worker can do, by name."""
    return {"verify": _verify}


def _verify(payload: bytes) -> bytes:
    asked = msgspec.msgpack.decode(payload, type=Request)
    proof = git.verify(asked.checkout, mode=asked.mode, keys=asked.keys)
    return msgspec.msgpack.encode(proof)
