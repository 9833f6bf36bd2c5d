"""Work in a thread ends soon after nobody waits for it."""

import asyncio
import threading

import pytest

from toolkit.artifact import threads
from toolkit.artifact.threads import Checkpoint


async def test_the_result_comes_back() -> None:
    assert await threads.run(lambda _: threading.get_ident()) != threading.get_ident()


async def test_an_error_comes_back() -> None:
    def fail(_: Checkpoint) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await threads.run(fail)


async def test_a_cancelled_caller_leaves_when_the_work_has_stopped() -> None:
    started, stopped = threading.Event(), threading.Event()

    def work(checkpoint: Checkpoint) -> None:
        started.set()
        try:
            while True:
                checkpoint()
        finally:
            stopped.set()

    task = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(started.wait)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_a_second_cancellation_does_not_leave_the_work_behind() -> None:
    started, release, stopped = threading.Event(), threading.Event(), threading.Event()

    def work(checkpoint: Checkpoint) -> None:
        started.set()
        release.wait()
        try:
            checkpoint()
        finally:
            stopped.set()

    task = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    release.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()
