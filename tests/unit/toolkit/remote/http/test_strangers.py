"""Threads for names whose owners decide how long a lookup takes."""

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from toolkit.remote.http.strangers import FairThreads, Strangers, domain

if TYPE_CHECKING:
    from concurrent.futures import Future


@pytest.fixture
def answer() -> Iterator[threading.Event]:
    """Yield what slow name servers wait for; it is set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


async def done(future: "Future[str]") -> str:
    return await asyncio.wait_for(asyncio.wrap_future(future), 10)


async def test_names_of_one_domain_do_not_use_all_threads(answer: threading.Event) -> None:
    threads = Strangers(places=8)
    for number in range(100):
        threads.look_up(f"{number}.evil.example.com", answer.wait)

    assert await done(threads.look_up("registry.example.org", lambda: "found")) == "found"


async def test_caller_that_gives_up_does_not_make_room(answer: threading.Event) -> None:
    threads = Strangers(places=8)
    for number in range(100):
        threads.look_up(f"{number}.evil.example.com", answer.wait).cancel()

    assert await done(threads.look_up("registry.example.org", lambda: "found")) == "found"


async def test_names_that_were_found_at_once_do_not_wait_for_new_ones(
    answer: threading.Event,
) -> None:
    threads = Strangers(places=4)
    await done(threads.look_up("registry.example.org", lambda: "found"))
    for number in range(100):
        threads.look_up(f"evil-{number}.com", answer.wait)

    assert await done(threads.look_up("registry.example.org", lambda: "again")) == "again"


async def test_name_that_becomes_slow_counts_as_new(answer: threading.Event) -> None:
    times = iter(range(0, 100, 10))
    threads = Strangers(places=1, clock=lambda: float(next(times)))
    await done(threads.look_up("evil.com", lambda: "slow"))
    threads.look_up("other.com", answer.wait)

    last = threads.look_up("evil.com", lambda: "found")

    assert not last.running()
    answer.set()
    assert await done(last) == "found"


async def test_waiting_work_starts_and_errors_are_the_callers() -> None:
    def fails() -> str:
        raise OSError("no such name")

    threads = FairThreads(2, name="test")
    failing = [threads.submit("a", fails) for _ in range(10)]
    working = [threads.submit("b", lambda: "found") for _ in range(10)]

    for one in failing:
        with pytest.raises(OSError, match="no such name"):
            await done(one)
    assert [await done(one) for one in working] == ["found"] * 10


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("ghcr.io", "ghcr.io"),
        ("a.b.example.com", "example.com"),
        ("A.Example.com.", "example.com"),
        ("www.example.co.uk", "example.co.uk"),
        ("localhost", "localhost"),
        ("10.0.0.1", ""),
        ("10.0.0.2", ""),
        ("[fd00::1]", ""),
    ],
)
def test_names_of_one_owner_are_one_flow(host: str, owner: str) -> None:
    assert domain(host) == owner
