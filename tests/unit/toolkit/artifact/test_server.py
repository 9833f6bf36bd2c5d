"""The port of the artifact server: strangers keep no reader out, and none is cut off for them."""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.strangers import Stranger, served
from toolkit.artifact import server
from toolkit.artifact.store import Readable
from toolkit.net.connections import Limits

LIMITS = Limits(connections=4, request_seconds=0.3)
SIZE = 1 << 20


class Slow:
    """Has one artifact, and takes longer to find it than a request may take to come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def open(self, path: str) -> Readable:
        self.asked.set()
        await self.go.wait()
        return Readable(
            name=path,
            file=self.path.open("rb", buffering=0),
            size=SIZE,
            modified=time.time(),
            digest="sha256:1",
            intact=True,
        )


class Shortened:
    """Has one artifact, which lost its end since it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self, path: str) -> Readable:
        return Readable(
            name=path,
            file=self.path.open("rb", buffering=0),
            size=SIZE,
            modified=time.time(),
            digest="sha256:1",
            intact=True,
        )


async def test_a_file_that_became_shorter_is_not_passed_off_as_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "a.tar.gz").write_bytes(bytes(SIZE - 1))
    url = "/gitrepository/a/b/c.tar.gz"
    async with (
        served(server.application(Shortened(tmp_path / "a.tar.gz")), LIMITS) as port,
        aiohttp.ClientSession(headers={"Connection": "close"}) as session,
        session.get(f"http://127.0.0.1:{port}{url}") as response,
    ):
        with pytest.raises(aiohttp.ClientError):
            await response.read()

    said = [vars(each).get("error") for each in caplog.records]
    assert "the file became shorter while it was sent" in said


async def test_strangers_neither_keep_readers_out_nor_cut_them_off(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(bytes(SIZE))
    source = Slow(tmp_path / "a.tar.gz")
    async with served(server.application(source), LIMITS) as port:

        async def read() -> int:
            url = f"http://127.0.0.1:{port}/gitrepository/a/b/c.tar.gz"
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return len(await response.read())

        first = asyncio.create_task(read())
        await source.asked.wait()
        strangers = [await Stranger.open(port) for _ in range(12)]
        for each in strangers:
            await each.ended()
            await each.close()
        source.go.set()

        assert (await first, await read()) == (SIZE, SIZE)
