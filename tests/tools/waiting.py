"""Waiting for what nobody announces: another look, and another, until it is so.

The deadline tells that it is not coming. It is never a measure of speed.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any

SECONDS = 90.0


async def until(
    look: Callable[[], Any],
    *,
    beside: Iterable[asyncio.Task[None]] = (),
    seconds: float = SECONDS,
) -> Any:
    """Return the first answer of ``look``, which may be a coroutine's, that counts.

    Raises: what a task ``beside`` it fails with meanwhile; ``TimeoutError`` in the end.
    """
    tasks = tuple(beside)
    async with asyncio.timeout(seconds):
        while True:
            answer = look()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            raise_failures(tasks)
            await asyncio.sleep(0.05)


def raise_failures(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Fail with the error of a task that ended by itself."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
