"""The clock of ``tests.fakes.virtualtime`` waits for those who work, and not for those who wait."""

import asyncio
import threading
import time

import pytest

from tests.fakes import virtualtime

SECONDS = 0.8
"""Longer than the clock waits for a thread that does nothing."""


def work() -> None:
    ended = time.thread_time() + SECONDS
    while time.thread_time() < ended:
        sum(range(1000))


def test_no_time_passes_while_a_thread_works() -> None:
    async def main() -> float:
        async with asyncio.timeout(60):
            await asyncio.to_thread(work)
        return asyncio.get_running_loop().time()

    assert virtualtime.run(main) == 0


def test_no_time_passes_on_a_machine_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work takes many times what the clock waits for threads at once."""
    monkeypatch.setattr(virtualtime, "_WORK", SECONDS / 100)

    test_no_time_passes_while_a_thread_works()


def test_time_passes_for_a_thread_that_waits_for_it() -> None:
    async def main() -> float:
        come = threading.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(60, come.set)
        await asyncio.to_thread(come.wait)
        return loop.time()

    assert virtualtime.run(main) == 60
