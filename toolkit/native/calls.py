"""Call the engine: requests and answers are JSON, a worker does the work.

The request has the deadline, so that the engine can end a build itself with a proper error. A
worker that does not end is killed a little later.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolkit.errors import TransientError
from toolkit.native import library
from toolkit.native.engine import Status
from toolkit.native.engineworker import DEADLINE
from toolkit.native.kind import WorkerKind
from toolkit.native.pool import WorkerPool, WorkerTimeoutError

MEMORY_LIMIT = 600 << 20
"""Bytes for a worker: a build of 1,000 resources takes a quarter of it, a YAML bomb all at once."""

_GRACE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class EngineError(TransientError):
    """The engine refused a request; ``code`` is its word for why, ``detail`` the operation's."""

    default_reason = "EngineFailed"

    def __init__(self, message: str, *, code: str, detail: Any = None, outcome: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.outcome = outcome


def start(*, size: int, memory_limit: int = MEMORY_LIMIT, reads: Sequence[Path] = ()) -> WorkerPool:
    """Return a pool of workers that have the engine, and read below ``reads`` alone.

    One flow may use ``size`` of them at once.

    Raises:
        StalledError: the engine is not built.
    """
    return WorkerPool(kind(memory_limit=memory_limit), size=size, reads=reads)


def kind(*, memory_limit: int = MEMORY_LIMIT, path: Path | None = None) -> WorkerKind:
    """Return the row of such a worker, with the library at ``path``; see ``start``."""
    path = path or library.find()
    return WorkerKind(
        module="toolkit.native.engineworker",  # parses untrusted input
        memory_limit=memory_limit,
        answer_limit=memory_limit // 4,  # the worker itself has it three times
        network=False,
        reads=(path,),
        environment={
            "PENSTOCK_ENGINE": str(path),
            # One Go scheduler thread and a lazier collector: measured best for one worker per core.
            # It gets less lazy before the limit is reached, at which the runtime aborts.
            "GOMAXPROCS": "1",
            "GOGC": "200",
            "GOMEMLIMIT": str(memory_limit * 3 // 4),
        },
    )


async def call(  # noqa: PLR0913  # the parts of a call
    pool: WorkerPool,
    op: str,
    request: Mapping[str, Any],
    *,
    flow: str,
    timeout: float,  # noqa: ASYNC109  # it starts with the work
    fresh: bool = False,
) -> Any:
    """Run one operation in a worker and return its decoded answer; ``timeout`` is in seconds.

    ``flow`` is the namespace of the object that the operation is for. With ``fresh`` the worker is
    a new one.

    Raises:
        EngineError: the operation failed.
        WorkersBusyError: no worker was free for it.
        WorkerTimeoutError: it did not end in time.
        WorkerDiedError: it took its worker down; ``WorkerMemoryError`` if by its use of memory.

    """
    payload = DEADLINE.pack(max(1, int(timeout * 1000))) + msgspec.json.encode(request)
    answer = await pool.call(op, payload, flow=flow, timeout=timeout + _GRACE_SECONDS, fresh=fresh)
    status, body = Status(answer[0]), msgspec.json.decode(memoryview(answer)[1:])
    if status is Status.OK:
        return body
    if status is Status.CANCELLED:
        raise WorkerTimeoutError(f"{op} did not end within {timeout:g}s")
    if status is Status.PANICKED:
        logger.error("engine panicked", extra={"op": op, "stack": body.get("detail")})
    raise EngineError(body["message"], code=body["code"], detail=body.get("detail"))
