"""Questions of a worker to its parent during an operation, and the replies.

The other side is ``engine/internal/parent``. A question is the body of a frame with the status
``ASKING``; replies follow the request on the worker's standard input. Each exchange is one HTTP
request and has a number. The worker announces that it has no more questions, and reads until the
parent has confirmed that, so that no reply is left for the next request.
"""

import struct
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Final, Protocol

import msgspec

from toolkit.errors import TransientError

_QUESTION: Final = struct.Struct("<BI")
"""An ``Ask``, the number of the exchange."""
_REPLY: Final = struct.Struct("<BIQ")
"""A ``Reply``, the number of the exchange, and the length of the following data."""
_LENGTH: Final = struct.Struct("<I")


class Ask(IntEnum):
    """A message from the worker."""

    SEND = 1
    DROP = 2
    DONE = 3


class Reply(IntEnum):
    """A message from the parent."""

    HEAD = 1
    CHUNK = 2
    END = 3
    BROKEN = 4
    CANCEL = 5
    DONE = 6


class MalformedError(TransientError):
    """A worker sent an invalid question."""

    default_reason = "WorkerDied"


class Head(msgspec.Struct, frozen=True):
    """The beginning of a request; ``target`` is path and query, encoded."""

    identity: str
    method: str
    target: str
    headers: dict[str, list[str]]


Tell = Callable[[bytes], None]
"""Sends a frame to the worker."""
Drained = Callable[[], Awaitable[None]]
"""Waits until the worker has read most of the sent data, or has ended."""


class Answering(Protocol):
    """Answers the questions of one operation."""

    def begin(self, tell: Tell, drained: Drained) -> None:
        """Take the way to the worker."""

    def asked(self, question: bytes) -> None:
        """Take a question.

        Raises:
            MalformedError: the frame is not a question.
        """

    def waits(self, seconds: float) -> bool:
        """Tell whether the operation has waited for one answer for so long."""

    async def end(self) -> None:
        """Abandon exchanges that are still being answered."""


def decode(question: bytes) -> tuple[Ask, int, bytes]:
    """Return kind, number and the rest of a question."""
    try:
        kind, number = _QUESTION.unpack_from(question)
        return Ask(kind), number, question[_QUESTION.size :]
    except (struct.error, ValueError) as exc:
        raise MalformedError(f"a question cannot be read: {exc}") from exc


def decode_send(data: bytes) -> tuple[Head, bytes]:
    """Return head and body of a request."""
    try:
        (size,) = _LENGTH.unpack_from(data)
        head = data[_LENGTH.size : _LENGTH.size + size]
        return msgspec.json.decode(head, type=Head), data[_LENGTH.size + size :]
    except (struct.error, ValueError, RecursionError) as exc:
        raise MalformedError(f"a request cannot be read: {exc}") from exc


def reply(kind: Reply, number: int = 0, data: bytes = b"") -> bytes:
    """Return a frame for a worker."""
    return _REPLY.pack(kind, number, len(data)) + data


def head(status: int, headers: Any) -> bytes:
    """Return the encoded head of a response."""
    return msgspec.json.encode({"status": status, "headers": headers})
