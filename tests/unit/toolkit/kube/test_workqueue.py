"""The work queue's promises, on a virtual clock."""

import asyncio

import pytest

from tests.fakes import virtualtime
from toolkit.kube.workqueue import Item, QueueClosedError, WorkQueue
from toolkit.objects import ObjectKey

A = ObjectKey("one", "a")
B = ObjectKey("one", "b")
C = ObjectKey("two", "c")


def queue() -> WorkQueue:
    return WorkQueue("test", min_delay=1.0, max_delay=60.0)


def test_a_key_added_twice_is_handed_out_once_with_both_triggers() -> None:
    async def scenario() -> tuple[Item, int]:
        subject = queue()
        subject.add(A, "spec")
        subject.add(A, "source")
        return await subject.get(), len(subject)

    item, left = virtualtime.run(scenario)

    assert item == Item(A, frozenset({"spec", "source"}))
    assert left == 0


def test_a_key_is_never_with_two_workers() -> None:
    async def scenario() -> tuple[bool, Item]:
        subject = queue()
        subject.add(A, "spec")
        await subject.get()
        subject.add(A, "source")
        second = asyncio.create_task(subject.get())
        await virtualtime.settle()
        early = second.done()
        subject.done(A)
        return early, await second

    early, item = virtualtime.run(scenario)

    assert not early
    assert item == Item(A, frozenset({"source"}))


def test_a_namespace_gets_no_more_than_its_share() -> None:
    async def scenario() -> tuple[Item, bool, Item]:
        subject = WorkQueue("test", min_delay=1.0, max_delay=60.0, share=1)
        subject.add(A, "spec")
        subject.add(B, "spec")
        await subject.get()
        waiting = asyncio.create_task(subject.get())
        await virtualtime.settle()
        early = waiting.done()
        subject.add(C, "spec")
        other = await waiting
        last = asyncio.create_task(subject.get())
        await virtualtime.settle()
        subject.done(A)
        return other, early, await last

    other, early, last = virtualtime.run(scenario)

    assert not early
    assert other.key == C
    assert last.key == B


def test_namespaces_take_turns() -> None:
    async def scenario() -> list[ObjectKey]:
        subject = queue()
        for key in (A, B, C):
            subject.add(key, "spec")
        return [(await subject.get()).key for _ in range(3)]

    assert virtualtime.run(scenario) == [A, C, B]


def test_retries_back_off_exponentially_up_to_the_limit() -> None:
    async def scenario() -> list[float]:
        subject = queue()
        return [subject.retry(A) for _ in range(8)]

    delays = virtualtime.run(scenario)

    for delay, expected in zip(delays, [1, 2, 4, 8, 16, 32, 60, 60], strict=True):
        assert delay == pytest.approx(expected, rel=0.1)


def test_a_retry_comes_after_its_delay() -> None:
    async def scenario() -> tuple[float, float, Item]:
        subject = queue()
        delay = subject.retry(A)
        item = await subject.get()
        return delay, asyncio.get_running_loop().time(), item

    delay, now, item = virtualtime.run(scenario)

    assert now == pytest.approx(delay)
    assert item.triggers == {"retry"}


def test_forget_starts_the_back_off_anew() -> None:
    async def scenario() -> float:
        subject = queue()
        for _ in range(5):
            subject.retry(A)
        subject.forget(A)
        return subject.retry(A)

    assert virtualtime.run(scenario) == pytest.approx(1.0, rel=0.1)


def test_a_later_plan_of_the_same_trigger_replaces_the_earlier() -> None:
    async def scenario() -> tuple[float, int]:
        subject = queue()
        subject.add_after(A, 5, "interval")
        subject.add_after(A, 50, "interval")
        await subject.get()
        when = asyncio.get_running_loop().time()
        subject.done(A)
        await asyncio.sleep(100)
        return when, len(subject)

    assert virtualtime.run(scenario) == (50, 0)


def test_plans_of_different_triggers_stand_beside_each_other() -> None:
    async def scenario() -> list[tuple[float, frozenset[str]]]:
        subject = queue()
        subject.add_after(A, 50, "interval")
        subject.add_after(A, 5, "health")
        seen = []
        for _ in range(2):
            item = await subject.get()
            seen.append((asyncio.get_running_loop().time(), item.triggers))
            subject.done(A)
        return seen

    assert virtualtime.run(scenario) == [
        (5.0, frozenset({"health"})),
        (50.0, frozenset({"interval"})),
    ]


def test_an_immediate_add_replaces_the_plan_of_its_trigger() -> None:
    async def scenario() -> int:
        subject = queue()
        subject.add_after(A, 5, "source")
        subject.add(A, "source")
        await subject.get()
        subject.done(A)
        await asyncio.sleep(10)
        return len(subject)

    assert virtualtime.run(scenario) == 0


def test_a_cancelled_worker_does_not_swallow_a_wake_up() -> None:
    async def scenario() -> Item:
        subject = queue()
        first, second = (asyncio.create_task(subject.get()) for _ in range(2))
        await virtualtime.settle()
        subject.add(A, "spec")
        first.cancel()
        return await asyncio.wait_for(second, 1)

    assert virtualtime.run(scenario).key == A


def test_shutdown_releases_workers_and_drops_plans() -> None:
    async def scenario() -> tuple[list[Item | BaseException], int]:
        subject = queue()
        workers = [asyncio.create_task(subject.get()) for _ in range(2)]
        subject.add_after(A, 5, "interval")
        await virtualtime.settle()
        subject.shutdown()
        subject.add(B, "spec")
        results = await asyncio.gather(*workers, return_exceptions=True)
        await asyncio.sleep(10)
        return results, len(subject)

    results, left = virtualtime.run(scenario)

    assert [type(result) for result in results] == [QueueClosedError, QueueClosedError]
    assert left == 0


def test_a_key_in_work_at_shutdown_can_still_be_given_back() -> None:
    async def scenario() -> int:
        subject = queue()
        subject.add(A, "spec")
        await subject.get()
        subject.shutdown()
        subject.done(A)
        return len(subject)

    assert virtualtime.run(scenario) == 0
