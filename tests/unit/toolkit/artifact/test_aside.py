"""Packing and reading large artifacts keep nobody else waiting: they run beside the event loop."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.waiting import SECONDS
from toolkit.artifact.ignore import Entry, Ignore
from toolkit.artifact.storage import Owner, Storage

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.yaml").write_text("a: 1\n")
    return tree


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "root", advertised="artifacts.test:9090")


class Waiting(Ignore):
    """Holds the packing up until somebody else has had a turn."""

    turn = threading.Event()
    had = False

    def walk(self, tree: Path) -> Iterator[Entry]:
        type(self).had = self.turn.wait(SECONDS)
        yield from super().walk(tree)


async def test_the_loop_goes_on_while_a_tree_is_packed(storage: Storage, tree: Path) -> None:
    packing = asyncio.create_task(
        storage.store(OWNER, revision="1", filename="1.tar.gz", tree=tree, ignore=Waiting())
    )
    for _ in range(10):
        await asyncio.sleep(0)

    Waiting.turn.set()
    artifact = await packing

    assert Waiting.had
    assert storage.path(artifact).is_file()


async def test_the_loop_goes_on_while_an_artifact_is_read(storage: Storage, tree: Path) -> None:
    artifact = await storage.store(
        OWNER, revision="1", filename="1.tar.gz", tree=tree, ignore=Ignore()
    )
    path = storage.path(artifact)
    path.unlink()
    os.mkfifo(path)  # who opens a pipe waits until somebody writes to it

    reading = asyncio.create_task(storage.intact(artifact))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not reading.done()
    with contextlib.suppress(BrokenPipeError):  # a pipe is not a file, and may be closed at once
        await asyncio.to_thread(path.write_bytes, b"no artifact")

    assert not await reading
