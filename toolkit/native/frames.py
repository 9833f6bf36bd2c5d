"""What crosses the pipe between a pool and its workers.

A request is a header, the operation's name and its payload; an answer is a header and a body. The
body of a failed operation is its error as JSON, so that the parent raises what the worker raised.
Errors are rebuilt only from classes that the parent has already imported: a name that came over
the pipe never loads code.
"""

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from toolkit import untrusted
from toolkit.errors import PenstockError, TransientError

REQUEST = struct.Struct("<IQ")
"""Length of the operation's name, length of the payload."""

ANSWER = struct.Struct("<BQ")
"""A ``Status``, length of the body."""

MAX_BODY = 256 << 20
"""Bytes. A longer answer is not believed: the parent would have to hold it."""

EXIT_MEMORY = 77
"""Exit status of a worker in which Python ran out of memory."""


class Status(IntEnum):
    """How an operation ended."""

    OK = 0
    FAILED = 1


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
    names = [_name(cls) for cls in type(error).__mro__ if issubclass(cls, PenstockError)]
    plain = {
        key: value
        for key, value in vars(error).items()
        if value is None or isinstance(value, str | int | float)
    }
    return json.dumps({"classes": names, "message": str(error), "attributes": plain}).encode()


def decode_error(body: bytes) -> PenstockError:
    """Rebuild an error as the nearest class of it that this process knows."""
    fields = untrusted.load_json(body, dict[str, Any], size=len(body))
    known = {_name(cls): cls for cls in _descendants(PenstockError)}
    cls = next((known[name] for name in fields["classes"] if name in known), OperationError)
    # Constructors of subclasses differ, their attributes do not need them.
    error = cls.__new__(cls, fields["message"])
    PenstockError.__init__(error, fields["message"])
    error.__dict__.update(fields["attributes"])
    return error


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _descendants(cls: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _descendants(child)
