"""Review the permission of an open watch each minute, because it may be withdrawn meanwhile.

kube-apiserver reviews a watch once, and ends it after an hour. Here the API server's answer is
cached (``authorization``), so this costs one review per client and question. Only a denial ends a
watch: while the API server gives no answer, it forwards no requests either.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from apiserver.status import StatusError

SECONDS: Final = 60.0


@contextlib.asynccontextmanager
async def held(authorize: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run the block until ``authorize`` refuses.

    Raises:
        StatusError: 504, the permission was withdrawn. An answer that has begun just ends, and the
            client learns the reason when it reconnects.
    """
    try:
        async with asyncio.timeout(None) as limit:
            asking = asyncio.create_task(_ask(authorize, limit))
            try:
                yield
            finally:
                asking.cancel()
    except TimeoutError as exc:
        if not limit.expired():
            raise
        raise StatusError(504, "Timeout", "the right to watch was withdrawn") from exc


async def _ask(authorize: Callable[[], Awaitable[None]], limit: asyncio.Timeout) -> None:
    """Ask now and then; end the block at the first refusal."""
    while True:
        await asyncio.sleep(SECONDS * random.uniform(0.9, 1.1))  # noqa: S311 - spreads the work
        try:
            await authorize()
        except StatusError as exc:
            if exc.code == 403:
                limit.reschedule(asyncio.get_running_loop().time())
                return
