"""Wait for the caches that a decision rests on."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Final, Protocol

_PATIENCE_SECONDS: Final = 10.0


class Cache(Protocol):
    """An informer, or an object that an informer keeps up to date."""

    @property
    def synced(self) -> bool:
        """Tell whether it is complete."""

    async def wait_synced(self) -> None:
        """Wait until it is complete."""


class Attempted(Protocol):
    """A cache that tells when the first attempt to fill it has ended."""

    async def wait_attempted(self) -> None:
        """Wait for that."""


async def complete(*caches: Cache) -> None:
    """Wait up to ten seconds for the caches that are not complete, as when a process starts.

    A caller that then finds a cache incomplete must deny, wait or try again.
    """
    await _patiently(*(cache.wait_synced() for cache in caches if not cache.synced))


async def attempted(*caches: Attempted) -> None:
    """Wait as long for the first attempts to fill caches, whether or not they fail."""
    await _patiently(*(cache.wait_attempted() for cache in caches))


async def _patiently(*waits: Awaitable[None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*waits)
