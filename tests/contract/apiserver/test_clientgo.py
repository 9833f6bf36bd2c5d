"""A controller's informers, built with client-go, see what there is and stay with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from apiserver.view import View
from tests.contract.apiserver.conftest import API_VERSION, ToyShop, Window
from toolkit.objects import Json, ObjectKey, key_of


class Follower:
    """What an informer has told so far; ``fallen`` are objects whose version went back."""

    def __init__(self) -> None:
        self.store: dict[ObjectKey, Json] = {}
        self.synced = False
        self.fallen: list[str] = []
        self._highest: dict[str, int] = {}

    def take(self, raw: bytes) -> None:
        """Read one line."""
        line = msgspec.json.decode(raw)
        if line["type"] == "SYNCED":
            self.synced = True
            return
        self._compare(line["object"]["metadata"])
        if line["type"] == "DELETED":
            self.store.pop(key_of(line["object"]), None)
        else:
            self.store[key_of(line["object"])] = line["object"]

    def _compare(self, metadata: Json) -> None:
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        known = self._highest.setdefault(uid, version)
        if version < known:
            self.fallen.append(f"{metadata['name']}: {known} -> {version}")
        self._highest[uid] = max(known, version)

    async def same(self, view: View) -> bool:
        """Tell whether it has what is served, the labels at least: the same at all replicas."""
        known = {key: obj["metadata"]["labels"] for key, obj in self.store.items()}
        return self.synced and known == {item.key: item.labels for item in view.snapshot().items}


@contextlib.asynccontextmanager
async def followed(
    program: Path, window: Window, *more: str, resource: str = "toys"
) -> AsyncIterator[Follower]:
    """Run an informer."""
    process = await asyncio.create_subprocess_exec(
        program,
        window.control_plane.kubeconfig,
        f"{API_VERSION}/{resource}",
        *more,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    output, follower = process.stdout, Follower()

    async def read() -> None:
        async for raw in output:
            follower.take(raw)

    reading = asyncio.create_task(read())
    try:
        yield follower
    finally:
        process.kill()
        await process.wait()
        await reading


def restarted(shop: ToyShop) -> ToyShop:
    """Return what a new process knows: what there is, and nothing of what was."""
    made = ToyShop(revision=shop.revision)
    for item in shop.view.snapshot().items:
        made.put(item.key.namespace, item.key.name, colour=item.obj["spec"]["colour"])
    return made


@pytest.mark.parametrize("more", [(), ("metadata",)], ids=["objects", "metadata"])
async def test_an_informer_stays_in_sync(
    informer_program: Path, window: Window, more: tuple[str, ...]
) -> None:
    await window.start()
    await window.available()

    async with followed(informer_program, window, *more) as follower:
        await window.until(lambda: follower.same(window.shop.view))
        for number in range(1000):
            window.shop.put(window.namespace, f"toy-{number % 50}", colour=f"c{number}")
            if number % 7 == 0:
                window.shop.remove(window.namespace, f"toy-{number % 11}")
            if number % 25 == 0:
                await asyncio.sleep(0.01)
        await window.until(lambda: follower.same(window.shop.view))
        await window.replicas.pop().stop()
        window.shop = restarted(window.shop)
        for number in range(20, 30):
            window.shop.remove(window.namespace, f"toy-{number}")
        await window.start()
        window.shop.put(window.namespace, "late")
        await window.until(lambda: follower.same(window.shop.view))

    assert ObjectKey(window.namespace, "late") in follower.store
    assert ObjectKey(window.namespace, "toy-25") not in follower.store
