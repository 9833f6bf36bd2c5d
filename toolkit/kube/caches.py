"""Wait for the caches that a decision rests on."""

import asyncio
import contextlib
from typing import Final, Protocol

_PATIENCE_SECONDS: Final = 10.0


class Cache(Protocol):
    """An informer, or what is kept by one."""

    @property
    def synced(self) -> bool:
        """Tell whether it is complete."""

    async def wait_synced(self) -> None:
        """Wait until it is complete."""


async def complete(*caches: Cache) -> None:
    """Wait up to ten seconds for the caches that are not complete, as when a process starts.

    A caller that then finds a cache incomplete must deny, wait or try again.
    """
    waiting = [cache for cache in caches if not cache.synced]
    if waiting:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.gather(*(cache.wait_synced() for cache in waiting))
