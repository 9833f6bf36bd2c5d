"""Messages on the pipe between a pool and its workers.

A request is a header, the name of the operation and its payload; an answer is a header and a body.
The body of a failed operation is its error as JSON, so that the parent raises the error of the
worker (``relayed``). Workers import this module, so it has few imports.
"""

import json
import struct
from enum import IntEnum
from typing import Final

from toolkit.errors import PenstockError, TransientError

REQUEST = struct.Struct("<IQ")
"""Length of the operation's name, length of the payload."""

ANSWER = struct.Struct("<BQ")
"""A ``Status``, length of the body."""

MAX_BODY = 256 << 20
"""Bytes. A longer answer is not believed: the parent would have to hold it."""

EXIT_MEMORY = 77
"""Exit status of a worker in which Python ran out of memory."""

EXIT_STUCK = 78
"""Exit status of a worker whose operation did not end; its last line of output has the reason."""


class Status(IntEnum):
    """The result of an operation."""

    OK = 0
    FAILED = 1
    ASKING = 2  # not yet: the body is a question to the parent (``toolkit.native.questions``)


ENDS: Final = frozenset({Status.OK, Status.FAILED})
"""The statuses that end an operation."""


class OperationError(TransientError):
    """An operation failed in a way that its author did not foresee; ``trace`` is for the log."""

    default_reason = "OperationFailed"

    def __init__(self, message: str, *, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def encode_request(op: str, payload: bytes) -> bytes:
    """Return header and name; the payload follows as it is."""
    name = op.encode()
    return REQUEST.pack(len(name), len(payload)) + name


def encode_error(error: PenstockError) -> bytes:
    """Write down class, message and the plain attributes of ``error``."""
    names = [name_of(cls) for cls in type(error).__mro__ if issubclass(cls, PenstockError)]
    plain = {
        key: value
        for key, value in vars(error).items()
        if value is None or isinstance(value, str | int | float)
    }
    return json.dumps({"classes": names, "message": str(error), "attributes": plain}).encode()


def name_of(cls: type) -> str:
    """Return the name of a class as it crosses the pipe."""
    return f"{cls.__module__}:{cls.__qualname__}"
