"""A watch lasts for an hour, and a right may be withdrawn meanwhile: ask again each minute.

kube-apiserver asks once, and caps a watch at an hour. Here the API server's answer is remembered
(``authorization``), so asking again costs one review per reader and question. Only a refusal ends a
watch: while the API server gives no answer, its proxy serves nobody either.
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
    """Run the block for as long as ``authorize`` does not refuse.

    Raises:
        StatusError: 504, the right was withdrawn; what has begun to be sent just ends, and the
            client learns the reason when it comes back.
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
