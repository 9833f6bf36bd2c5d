"""What stands in the store and is not an artifact."""

import asyncio
import os
from pathlib import Path

from toolkit.artifact.storage import Storage


async def test_a_pipe_in_the_store_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "gitrepository/apps/web/pipe.tar.gz"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    opening = asyncio.create_task(
        Storage(tmp_path, advertised="artifacts.test").open("gitrepository/apps/web/pipe.tar.gz")
    )

    done, _ = await asyncio.wait([opening], timeout=10)
    if not done:  # let the thread end that waits for a writer
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))

    assert done
    assert opening.result() is None
