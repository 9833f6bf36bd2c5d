"""Blocking work in a thread that ends soon after its caller is cancelled.

A thread cannot be cancelled. Without a check it would go on reading a directory that its caller has
already removed, and fill a disk for nothing. So the work gets a checkpoint to call regularly, and a
cancelled caller returns only when the thread has stopped.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Checkpoint: TypeAlias = Callable[[], None]
"""Raises if the work was cancelled; costs next to nothing."""


class AbandonedError(Exception):
    """Ends cancelled work. It is never raised to a caller."""


def go_on() -> None:
    """Pass the checkpoint of work that cannot be abandoned."""


async def run(work: Callable[[Checkpoint], T]) -> T:
    """Return the result of ``work``; if cancelled, wait until ``work`` has stopped."""
    abandoned = threading.Event()

    def checkpoint() -> None:
        if abandoned.is_set():
            raise AbandonedError

    task = asyncio.ensure_future(asyncio.to_thread(work, checkpoint))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        abandoned.set()
        await _settle(task)
        raise


async def _settle(task: asyncio.Future[T]) -> None:
    """Wait for ``task``, even if cancelled several times; its result is ignored."""
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
    task.exception()
