"""Remove what was stored for objects that are gone and had no finalizer.

Nothing waits for the store when such an object is deleted. The process that follows its kind
removes the artifacts of an object that it sees go. Now and then it holds all owners in the store
against the API server, for what was missed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

logger = logging.getLogger(__name__)

Exists = Callable[[Owner], Awaitable[bool]]
"""Asks the API server itself, not a cache that may lag. Raises ``TransientError`` if in doubt."""


class Store(Protocol):
    """What of a store is needed here."""

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        """Return the bytes that owners of a kind hold."""
        ...

    async def remove(self, owner: Owner) -> None:
        """Delete everything of the owner."""
        ...


async def sweep(store: Store, kind: str, exists: Exists) -> tuple[Owner, ...]:
    """Remove the artifacts of owners that do not exist; return those owners.

    Raises:
        TransientError: the store or the API server does not answer.
    """
    gone = []
    for owner in await store.usage(kind):
        if not await exists(owner):
            await store.remove(owner)
            gone.append(owner)
    return tuple(gone)


async def keep_sweeping(store: Store, kind: str, exists: Exists) -> None:
    """Sweep now and every hour, until cancelled."""
    while True:
        try:
            gone = await sweep(store, kind, exists)
        except TransientError as error:
            logger.warning("orphaned artifacts not removed", extra={"error": str(error)})
        else:
            if gone:
                logger.info("orphaned artifacts removed", extra={"owners": len(gone)})
        await asyncio.sleep(_HOUR)


_HOUR: Final = 3600.0
