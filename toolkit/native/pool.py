"""A pool of worker processes for operations that must be killable.

Some work cannot be stopped from inside a process: a YAML bomb in Go, a pathological pack file. So
it runs in separate processes, one operation at a time in each. A worker is killed and replaced if
it exceeds its deadline, or if its caller is cancelled. Workers start on demand, are never forked
from a process that has threads, and end after an idle minute.

Each call names its flow: the namespace that it is for. Flows take turns, and one flow never has all
workers (``toolkit.native.slots``). Short concurrent calls share a worker. The pool does not retry:
operations may not be idempotent, and a worker that crashed because of its input would crash again.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from toolkit.errors import TransientError
from toolkit.native import frames, relayed, slots
from toolkit.native.frames import OperationError
from toolkit.native.kind import WorkerKind
from toolkit.native.link import Link
from toolkit.native.questions import Answering
from toolkit.turns import BusyError

__all__ = ["OperationError", "WorkerDiedError", "WorkerMemoryError", "WorkerPool"]
__all__ += ["WorkerStuckError", "WorkerTimeoutError", "WorkersBusyError"]

IDLE_SECONDS = 60.0
QUEUE_SECONDS = 300.0
_GRACE_SECONDS = 5.0

_OUT_OF_MEMORY = (
    *("out of memory", "cannot allocate memory", "stack exceeds", "MemoryError"),
    "pthread_create failed",  # Go needs a thread, whose stack is memory
    # Go's collector uses a queue that it got no memory for (1.26, newSpanSPMC), and faults.
    "runtime.(*spanQueue).tryDrain",
)

logger = logging.getLogger(__name__)


class WorkerTimeoutError(TransientError):
    """An operation did not end in time."""

    default_reason = "WorkerTimeout"


class WorkersBusyError(TransientError):
    """An operation was not started, because no worker was free for it.

    This is never the fault of the operation.
    """

    default_reason = "WorkersBusy"


class WorkerDiedError(TransientError):
    """A worker ended in the middle of an operation."""

    default_reason = "WorkerDied"


class WorkerMemoryError(WorkerDiedError):
    """An operation needed more memory than a worker may have; ``limit`` is in bytes.

    ``fresh`` tells that it was the first operation of its worker. Otherwise a part of the memory
    may be what earlier operations left.
    """

    default_reason = "WorkerOutOfMemory"

    def __init__(self, message: str, *, limit: int, fresh: bool = True) -> None:
        super().__init__(message)
        self.limit = limit
        self.fresh = fresh


class WorkerStuckError(WorkerDiedError):
    """A worker ended itself because its operation did not end."""


class WorkerPool:
    """Runs operations of one kind of worker, at most ``size`` at once for one flow.

    A flow may have ``spares`` more while operations last. ``slots`` says how many processes there
    are for all flows together. Besides code a worker opens what is below ``reads``, which must
    exist when it starts, and below ``writes``, which it may change; those are made.
    """

    def __init__(
        self,
        kind: WorkerKind,
        *,
        size: int,
        spares: int = 0,
        reads: Sequence[Path] = (),
        writes: Sequence[Path] = (),
    ) -> None:
        self._kind = kind
        self._reads = reads
        self._writes = writes
        self._slots = slots.Slots(size, spares=spares)
        self._idle: list[Link] = []
        self._back = asyncio.Event()
        self._live: set[Link] = set()
        self._starting = 0
        self._closed = False

    async def call(  # noqa: PLR0913  # the parts of a call
        self,
        op: str,
        payload: bytes,
        *,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # it starts with the work
        answering: Answering | None = None,
        fresh: bool = False,
    ) -> bytes:
        """Run one operation and return its answer; ``answering`` handles its questions.

        ``flow`` is the namespace of the object that the operation is for. ``timeout`` is in seconds
        and begins when a worker takes the operation. Waiting for a free worker has its own limit.
        With ``fresh`` it gets a new worker, in place of an idle one.

        Raises:
            WorkersBusyError: no worker was free for it.
            WorkerTimeoutError: the deadline passed; the worker was killed.
            WorkerDiedError: the worker ended; ``WorkerMemoryError`` if it ran out of memory.
            OperationError: the operation raised an error that is not a ``PenstockError``.
            PenstockError: the error of the operation.
        """
        async with self._slot(op, flow, answering):
            link = await (self._replace_worker() if fresh else self._take_worker())
            try:
                status, body = await self._ask(link, op, payload, timeout, answering)
            except BaseException:
                link.kill()
                raise
            self._give_back(link)
        if status is frames.Status.OK:
            return body
        error = relayed.decode_error(body)
        if isinstance(error, OperationError):
            logger.error("operation failed", extra={"op": op, "trace": error.trace})
        raise error

    async def close(self) -> None:
        """Kill all workers and wait until they are gone; calls in flight fail."""
        self._closed = True
        self._kill_all()
        await self._slots.drained()  # Calls in flight hold one each, some may just be starting.
        self._kill_all()
        for link in tuple(self._live):
            await link.closed()

    def _kill_all(self) -> None:
        self._idle.clear()
        for link in self._live:
            link.kill()

    @asynccontextmanager
    async def _slot(self, op: str, flow: str, answering: Answering | None) -> AsyncIterator[None]:
        waits = answering.waits if answering else slots.never
        async with AsyncExitStack() as stack:
            try:
                taken = self._slots.taken(flow, timeout=QUEUE_SECONDS, waits=waits)
                await stack.enter_async_context(taken)
            except TimeoutError as exc:
                raise WorkersBusyError(
                    f"{op} was not started: no worker was free within {QUEUE_SECONDS:g}s"
                ) from exc
            except BusyError as exc:
                raise WorkersBusyError(f"{op} was not started: {exc}") from exc
            yield

    async def _take_worker(self) -> Link:
        if self._closed:
            raise WorkerDiedError(f"the pool of {self._kind.module} is closed")
        link = self._idling()
        if link is None and (self._live or self._starting):
            started = any(each.answered for each in self._live)
            patience = self._kind.patience if started else self._kind.starting
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    link = await self._next()
        return link or await self._start()

    async def _replace_worker(self) -> Link:
        if self._closed:
            raise WorkerDiedError(f"the pool of {self._kind.module} is closed")
        if idle := self._idling():
            idle.kill()
        return await self._start()

    async def _next(self) -> Link:
        """Return the next worker that has nothing to do."""
        while (link := self._idling()) is None:
            self._back.clear()
            await self._back.wait()
        return link

    def _idling(self) -> Link | None:
        while self._idle:
            link = self._idle.pop()
            link.stop_idling()
            if not link.fault:
                return link
        return None

    async def _start(self) -> Link:
        self._starting += 1
        try:
            return await self._launch()
        finally:
            self._starting -= 1

    async def _launch(self) -> Link:
        await asyncio.to_thread(_make, self._writes)
        confinement = self._kind.confinement(reads=self._reads, writes=self._writes)
        _, link = await asyncio.get_running_loop().subprocess_exec(
            lambda: Link(on_closed=self._forget, limit=self._kind.answer_limit),
            *(sys.executable, "-P", "-m", "toolkit.native.start", confinement.encode()),
            env=self._kind.environ(os.environ, sys.path, self._writes),
            # Ctrl-C in a terminal reaches the foreground process group only: the parent decides.
            start_new_session=True,
        )
        self._live.add(link)
        return link

    async def _ask(
        self,
        link: Link,
        op: str,
        payload: bytes,
        seconds: float,
        answering: Answering | None,
    ) -> tuple[frames.Status, bytes]:
        try:
            async with asyncio.timeout(seconds):
                answer = await link.ask(op, payload, answering)
        except TimeoutError as exc:
            raise WorkerTimeoutError(f"{op} did not end within {seconds:g}s") from exc
        if answer is None:
            raise await self._post_mortem(link, op)
        return answer

    async def _post_mortem(self, link: Link, op: str) -> WorkerDiedError:
        if self._closed:
            return WorkerDiedError(f"{op} was abandoned: the pool of {self._kind.module} is closed")
        code = await link.ended(_GRACE_SECONDS)
        last_words = link.last_words()
        logger.warning(
            "worker died", extra={"op": op, "exit_status": code, "output": last_words[-4000:]}
        )
        if code == frames.EXIT_MEMORY or any(text in last_words for text in _OUT_OF_MEMORY):
            allowed = f"{self._kind.memory_limit >> 20} MiB"
            limit = self._kind.memory_limit
            return WorkerMemoryError(
                f"{op} needed more memory than allowed ({allowed})",
                limit=limit,
                fresh=not link.answered,
            )
        if code == frames.EXIT_STUCK and last_words.strip():
            return WorkerStuckError(last_words.strip().splitlines()[-1])
        cause = link.fault or _cause(code, last_words)
        return WorkerDiedError(f"the worker of {op} was ended: {cause}")

    def _give_back(self, link: Link) -> None:
        if self._closed:
            link.kill()
            return
        self._idle.append(link)
        self._back.set()
        link.start_idling(IDLE_SECONDS, self._retire)

    def _retire(self, link: Link) -> None:
        with suppress(ValueError):
            self._idle.remove(link)
        link.kill()

    def _forget(self, link: Link) -> None:
        self._live.discard(link)
        with suppress(ValueError):
            self._idle.remove(link)


def _make(directories: Iterable[Path]) -> None:
    # A worker gets access only to directories that exist when it starts.
    for path in directories:
        path.mkdir(parents=True, exist_ok=True)


def _cause(code: int, last_words: str) -> str:
    if code == -signal.SIGKILL:
        return "signal 9, from outside, most likely for want of memory on the node"
    if code < 0:
        return f"signal {-code}"
    lines = last_words.strip().splitlines()
    return f"exit status {code}" + (f": {lines[-1]}" if lines else "")
