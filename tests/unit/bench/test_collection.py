"""A collection tells when all of its objects satisfy something."""

import asyncio

import pytest

from bench.collection import Collection
from cli import errors
from cli.watching import Change


def change(name: str, *, ready: bool, kind: str = "MODIFIED") -> Change:
    return Change(type=kind, object={"metadata": {"name": name}, "ready": ready})


async def waiting(collection: Collection, *names: str) -> "asyncio.Task[object]":
    task: asyncio.Task[object] = asyncio.create_task(
        collection.all(names, lambda obj: bool(obj and obj["ready"]), seconds=5, what="not ready")
    )
    await asyncio.sleep(0)
    return task


async def test_wait_ends_with_the_last_object() -> None:
    collection = Collection()
    collection._notice(change("a", ready=True))
    task = await waiting(collection, "a", "b")

    collection._notice(change("b", ready=False))
    await asyncio.sleep(0)
    assert not task.done()
    collection._notice(change("b", ready=True))

    assert set(await task) == {"a", "b"}


async def test_objects_that_were_not_named_do_not_matter() -> None:
    collection = Collection()
    task = await waiting(collection, "a")

    collection._notice(change("other", ready=True))
    await asyncio.sleep(0)
    assert not task.done()
    collection._notice(change("a", ready=True))

    assert set(await task) == {"a"}


async def test_deleted_object_is_seen_as_none() -> None:
    collection = Collection()
    collection._notice(change("a", ready=True))
    task = asyncio.create_task(
        collection.all(["a"], lambda obj: obj is None, seconds=5, what="not gone")
    )
    await asyncio.sleep(0)

    collection._notice(change("a", ready=True, kind="DELETED"))

    assert set(await task) == {"a"}


async def test_late_object_is_named_with_its_message() -> None:
    collection = Collection()
    collection._notice(
        Change(
            type="ADDED",
            object={
                "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Ready", "message": "build failed"}]},
            },
        )
    )

    with pytest.raises(errors.DeadlineError, match=r"1 left .* a among them.*build failed"):
        await collection.all(["a"], lambda _: False, seconds=0.01, what="not ready")
