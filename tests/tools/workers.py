"""Workers that many tests share: each start of one costs as much as ten of their tests.

A pool belongs to the event loop that started it, and each test has a loop of its own. So the pool
runs on a loop of its own, in a thread, and takes calls from all others.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from toolkit.native import build, calls
from toolkit.native.pool import WorkerPool


class _Shared:
    """Passes calls on to a pool on another loop; cancellation goes the same way."""

    def __init__(self, pool: WorkerPool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop

    async def call(
        self,
        op: str,
        payload: bytes,
        *,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # the pool's
        fresh: bool = False,
    ) -> bytes:
        """Run one operation, as ``WorkerPool.call`` does."""
        call = self._pool.call(op, payload, timeout=timeout, flow=flow, fresh=fresh)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))


@contextmanager
def engine(*, reads: Sequence[Path]) -> Iterator[WorkerPool]:
    """Run a worker that has the engine, for tests on any loop."""
    build.build()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="engine")
    thread.start()
    pool = calls.start(size=1, reads=reads)
    try:
        yield cast("WorkerPool", _Shared(pool, loop))
    finally:
        asyncio.run_coroutine_threadsafe(pool.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
