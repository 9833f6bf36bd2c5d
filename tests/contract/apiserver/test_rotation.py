"""Nobody who reads or follows a resource notices that our certificate is another one."""

import asyncio
from pathlib import Path

import pytest

from tests.contract.apiserver.following import cached, followed, rows
from tests.contract.apiserver.renewing import OVERLAP, renew, served
from tests.contract.apiserver.window import BASE, Window

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANGES = 1000


async def test_nobody_notices_that_the_certificate_is_replaced(
    informer_program: Path, fresh_window: Window
) -> None:
    window = fresh_window
    await window.start(certificate_overlap=OVERLAP)
    await window.available()
    before, done = await served(window), asyncio.Event()

    async def ask() -> int:
        """Return how many lists were answered; one that fails ends the test."""
        answered = 0
        while not done.is_set():
            found = await window.admin.request("GET", f"{BASE}/toys")
            assert found["kind"] == "ToyList"
            answered += 1
            await asyncio.sleep(0.02)
        return answered

    async with (
        asyncio.TaskGroup() as group,
        followed(informer_program, window) as informer,
        cached(window) as cache,
        rows(window) as shown,
    ):

        async def same() -> bool:
            items = window.shop.view.snapshot().items
            colours = {item.key.name: item.obj["spec"]["colour"] for item in items}
            known = {toy["metadata"]["name"]: toy["spec"]["colour"] for toy in cache.list()}
            return known == shown == colours and await informer.same(window.shop.view)

        window.shop.put(window.namespace, "first")
        await window.until(same)
        asking = group.create_task(ask())
        await renew(window)
        made = 0
        async with asyncio.timeout(60):
            while made < CHANGES or await served(window) == before:
                change(window, made)
                made += 1
                if made % 20 == 0:
                    await asyncio.sleep(0.1)
        # One by kubectl, which connects anew, and changes that only the new certificate has seen.
        listed = await window.kubectl("get", "--raw", f"{BASE}/toys")
        for number in range(20):
            change(window, made + number)
        await window.until(same)
        done.set()

    assert "ToyList" in listed
    assert asking.result() > 0


def change(window: Window, number: int) -> None:
    window.shop.put(window.namespace, f"toy-{number % 50}", colour=f"c{number}")
    if number % 7 == 0:
        window.shop.remove(window.namespace, f"toy-{number % 50}")
