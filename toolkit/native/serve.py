"""The loop inside a worker process.

A worker answers one request at a time and may be killed at any moment, so it stores no state that
matters. It has separate pipes: output of libraries goes to standard error and cannot damage an
answer. Its permissions are set before (``toolkit.native.start``).

It has no deadlines; ``toolkit.native.pool`` kills a worker that is late.
"""

import os
import traceback
from collections.abc import Callable, Mapping
from typing import BinaryIO

from toolkit.errors import PenstockError
from toolkit.native import frames

Operation = Callable[[bytes], bytes]


def serve(ops: Mapping[str, Operation], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the pipe is closed."""
    with requests, answers:
        try:
            while _answer_one(ops, requests, answers):
                pass
        except BrokenPipeError:
            os._exit(0)  # The parent has ended, so an error message has no reader.
        except MemoryError:
            os._exit(frames.EXIT_MEMORY)  # Nothing in this process can be relied on now.


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output, and put nothing and standard error in their places."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123  # only its descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def _answer_one(ops: Mapping[str, Operation], requests: BinaryIO, answers: BinaryIO) -> bool:
    header = requests.read(frames.REQUEST.size)
    if len(header) < frames.REQUEST.size:
        return False
    name_size, payload_size = frames.REQUEST.unpack(header)
    name = requests.read(name_size).decode()
    payload = requests.read(payload_size)
    if len(payload) < payload_size:
        return False
    status, body = _run(ops, name, payload)
    answers.write(frames.ANSWER.pack(status, len(body)))
    answers.write(body)
    answers.flush()
    return True


def _run(ops: Mapping[str, Operation], name: str, payload: bytes) -> tuple[frames.Status, bytes]:
    try:
        return frames.Status.OK, ops[name](payload)
    except PenstockError as exc:
        return frames.Status.FAILED, frames.encode_error(exc)
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001  # The outermost frame of a server: see the parent's log.
        message = f"{name} failed: {type(exc).__name__}: {exc}"
        error = frames.OperationError(message, trace=traceback.format_exc())
        return frames.Status.FAILED, frames.encode_error(error)
