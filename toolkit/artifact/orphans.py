"""Remove the artifacts of deleted objects that had no finalizer.

The process that watches a kind removes the artifacts of an object when it sees the deletion. To
find missed deletions, it regularly compares all owners in the store with the API server.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from toolkit.artifact.store import Owner
from toolkit.errors import TransientError

logger = logging.getLogger(__name__)

Exists = Callable[[Owner], Awaitable[bool]]
"""Asks the API server, not a cache that may lag. Raises ``TransientError`` if unsure."""


class Store(Protocol):
    """The part of a store that is needed here."""

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
