"""What crosses the pipe between a pool and its workers.

A request is a header, the operation's name and its payload; an answer is a header and a body. The
body of a failed operation is its error as JSON, so that the parent raises what the worker raised.
Errors are rebuilt only from classes that the parent has already imported: a name that came over
the pipe never loads code.
"""

import json
import re
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import msgspec

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

EXIT_STUCK = 78
"""Exit status of a worker whose operation could not be ended; its last line of output says why."""


class Status(IntEnum):
    """How an operation ended."""

    OK = 0
    FAILED = 1
    ASKING = 2  # not yet: the body is a question to the parent (``toolkit.native.questions``)


ENDS: Final = frozenset({Status.OK, Status.FAILED})
"""How an operation may end."""


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
    """Rebuild an error as the nearest class of it that this process knows.

    What a worker could not have raised is an ``OperationError``: something else may answer for it.
    """
    try:
        told = untrusted.load_json(body, _Told, size=len(body))
    except untrusted.UntrustedError as exc:
        return OperationError("the worker's answer cannot be read", trace=str(exc))
    known = {_name(cls): cls for cls in _descendants(PenstockError)}
    cls = next((known[name] for name in told.classes if name in known), OperationError)
    # Constructors of subclasses differ, their attributes do not need them.
    error = cls.__new__(cls, told.message)
    PenstockError.__init__(error, told.message)
    error.__dict__.update(
        {name: value for name, value in told.attributes.items() if not hasattr(Exception, name)}
    )
    reason = told.attributes.get("reason")
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        error.reason = cls.default_reason
    return error


class _Told(msgspec.Struct):
    """An error as ``encode_error`` writes it."""

    classes: list[str]
    message: str
    attributes: dict[str, str | int | float | bool | None]


_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _descendants(cls: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _descendants(child)
