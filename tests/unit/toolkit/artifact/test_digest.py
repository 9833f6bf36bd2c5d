"""A file is read once, and again when anything about it has changed."""

import asyncio
import hashlib
import os
from io import FileIO
from pathlib import Path

import pytest

from toolkit.artifact.digest import Digests

CONTENT = b"x" * 3_000_000
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Counted(FileIO):
    """A file that knows how much of it was read."""

    total = 0

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = super().readinto(buffer) or 0
        type(self).total += count
        return count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Counted.total = 0
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


async def digest(digests: Digests, path: Path) -> str:
    with Counted(path) as file:
        return await digests.of_open(path, file)


async def test_an_untouched_file_is_read_once(path: Path) -> None:
    digests = Digests()

    found = [await digest(digests, path) for _ in range(3)]

    assert found == [DIGEST] * 3
    assert Counted.total == len(CONTENT)


async def test_many_who_ask_at_once_read_once(path: Path) -> None:
    digests = Digests()

    found = await asyncio.gather(*(digest(digests, path) for _ in range(8)))

    assert set(found) == {DIGEST}
    assert Counted.total == len(CONTENT)


async def test_a_new_process_reads_again(path: Path) -> None:
    await digest(Digests(), path)
    await digest(Digests(), path)

    assert Counted.total == 2 * len(CONTENT)


def change_but_keep_times(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"y")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_changed_file_is_read_again_even_with_its_times_kept(path: Path) -> None:
    digests = Digests()
    await digest(digests, path)

    change_but_keep_times(path)

    assert await digest(digests, path) != DIGEST


async def test_a_replaced_file_is_read_again(path: Path) -> None:
    digests = Digests()
    await digest(digests, path)
    other = path.with_name("other")
    other.write_bytes(b"z" * len(CONTENT))
    other.replace(path)

    assert await digest(digests, path) != DIGEST


async def test_a_forgotten_file_is_read_again(path: Path) -> None:
    digests = Digests()
    await digest(digests, path)

    digests.forget(path)
    await digest(digests, path)

    assert Counted.total == 2 * len(CONTENT)
