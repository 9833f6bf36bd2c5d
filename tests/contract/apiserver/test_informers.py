"""Informers of all makes see what there is and stay with it, through changes and a restart."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.apiserver.following import cached, followed
from tests.contract.apiserver.window import Window
from tests.fakes.toyshop import API_VERSION
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey, key_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOY = GroupVersionKind.parse(API_VERSION, "Toy")
Known = dict[ObjectKey, str]
"""Colours."""


class Ours:
    """The informer that our own controllers use."""

    def __init__(self, client: Client) -> None:
        self.seen: set[tuple[str, str]] = set()
        self.informer: Informer[Json] = Informer(client, TOY, decode=json.loads)
        self.informer.subscribe(lambda change: self.seen.add((change.type, change.key.name)))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.informer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def known(self) -> Known:
        return {key: obj["spec"]["colour"] for key, obj in self.informer.items().items()}


def colours(objects: Any) -> Known:
    return {key_of(each): each["spec"]["colour"] for each in objects}


def change(window: Window, number: int) -> None:
    window.shop.put(window.namespace, f"toy-{number % 50}", colour=f"c{number}")
    if number % 7 == 0:
        window.shop.remove(window.namespace, f"toy-{number % 11}")


async def test_informers_of_all_makes_stay_in_sync_through_changes_and_a_restart(
    informer_program: Path, fresh_window: Window
) -> None:
    window = fresh_window
    await window.start()
    await window.available()
    ours = Ours(window.admin)

    async with (
        followed(informer_program, window) as objects,
        followed(informer_program, window, "metadata") as metadata,
        cached(window) as cache,
        ours.running(),
    ):

        async def in_sync() -> bool:
            view = window.shop.view
            there = colours(item.obj for item in view.snapshot().items)
            return (
                ours.known() == colours(cache.list()) == there
                and await objects.same(view)
                and await metadata.same(view)
            )

        window.shop.put(window.namespace, "first")
        await window.until(in_sync)
        for number in range(1000):
            change(window, number)
            if number % 25 == 0:
                await asyncio.sleep(0.01)
        await window.until(in_sync)
        await window.replicas.pop().stop()
        window.shop = window.shop.restarted()
        for number in range(20, 30):
            window.shop.remove(window.namespace, f"toy-{number}")
        await window.start()
        window.shop.put(window.namespace, "late")
        await window.until(in_sync)

    late, gone = (ObjectKey(window.namespace, name) for name in ("late", "toy-25"))
    for follower in (objects, metadata):
        assert late in follower.store
        assert gone not in follower.store
    assert {("DELETED", "toy-25"), ("ADDED", "late")} <= ours.seen
