"""What a fetcher leaves behind; what it fetches is for ``tests/loopback/artifact``."""

import asyncio
from pathlib import Path

from tests.tools import sessions
from toolkit.artifact.fetch import Fetcher


async def test_end_that_is_cancelled_closes_the_connections(tmp_path: Path) -> None:
    before = sessions.opened()
    fetcher = await Fetcher(tmp_path).__aenter__()

    ending = asyncio.create_task(fetcher.__aexit__())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])

    assert ending.cancelled()
    assert sessions.opened() <= before
