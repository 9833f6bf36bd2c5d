"""The demo's Git server is a real one."""

import asyncio
from pathlib import Path

import pytest

from cli.demo import gitserver
from cli.demo.repository import Repository


async def git(*arguments: str) -> int:
    process = await asyncio.create_subprocess_exec(
        "git", *arguments, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait()


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    made = await Repository.create(tmp_path, "shop")
    await made.commit("first", write={"deploy/web.yaml": "kind: Web\n", "README": "x" * 300_000})
    return made


async def test_commits_can_be_cloned_and_fetched(repository: Repository, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    async with gitserver.serve(tmp_path / "served") as server:
        assert await git("clone", "--quiet", server.url("shop.git"), str(copy)) == 0
        await repository.commit("second", write={"new": "2"}, remove=("deploy/web.yaml",))
        assert await git("-C", str(copy), "pull", "--quiet", "--ff-only") == 0

    assert sorted(path.name for path in copy.iterdir()) == [".git", "README", "new"]


async def test_what_is_not_there_is_refused(repository: Repository, tmp_path: Path) -> None:
    async with gitserver.serve(tmp_path / "served") as server:
        missing = await git("clone", "--quiet", server.url("other.git"), str(tmp_path / "a"))
        outside = await git("clone", "--quiet", server.url("../work/shop"), str(tmp_path / "b"))

    assert repository.bare.is_dir()
    assert (missing, outside) == (128, 128)


async def test_client_that_goes_away_disturbs_nobody(
    repository: Repository, tmp_path: Path
) -> None:
    async with gitserver.serve(tmp_path / "served") as server:
        host, port = server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /shop.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.read(20)
        writer.transport.abort()

        cloned = await git("clone", "--quiet", server.url("shop.git"), str(tmp_path / "copy"))

    assert repository.bare.is_dir()
    assert cloned == 0
