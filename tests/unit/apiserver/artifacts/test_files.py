"""Listings of artifacts are bounded by their paths, not only by their number."""

import asyncio
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from apiserver.artifacts.files import Files
from apiserver.artifacts.held import Held
from apiserver.status import StatusError
from tests.unit.apiserver.artifacts.scene import Copies, call, held
from toolkit.artifact.store import Owner


def listing(path: Path, *, files: int, characters: int) -> Copies:
    """Make a tarball of empty files with long paths."""
    parents = "/".join(["d" * 99] * (characters // 100 - 1))
    with tarfile.open(path, "w:gz", compresslevel=1) as tarball:
        for number in range(files):
            tarball.addfile(tarfile.TarInfo(f"{parents}/{number:099}"), io.BytesIO())
    return Copies(path)


def reader(copies: Copies) -> Files:
    fetch: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    fetch.set_result(copies)
    catalog: Any = None
    return Files(catalog, fetch)


def named(name: str) -> Held:
    return held(owner=Owner(kind="GitRepository", namespace="apps", name=name))


async def test_paths_that_fill_the_memory_are_refused(tmp_path: Path) -> None:
    copies = listing(tmp_path / "a.tar.gz", files=2_800, characters=3_000)

    with pytest.raises(StatusError) as caught:
        await reader(copies).of(call(), named("a"))

    assert caught.value.code == 422
    assert "8 MiB" in str(caught.value)


async def test_long_paths_are_not_remembered_for_ever(tmp_path: Path) -> None:
    copies = listing(tmp_path / "a.tar.gz", files=2_500, characters=3_000)
    files = reader(copies)

    for name in ("a", "b", "c", "d", "e"):
        assert len(await files.of(call(), named(name))) == 2_500
    await files.of(call(), named("e"))
    await files.of(call(), named("a"))

    assert copies.fetched == ["a", "b", "c", "d", "e", "a"]
