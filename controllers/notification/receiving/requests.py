"""Request reconciliations: one write for all requests of an object within a short time.

A burst of a hundred hooks for one source becomes one annotation, or two if it lasts longer.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from toolkit.kube.client import Client
from toolkit.objects import Json, ObjectRef

REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
_GATHER: Final = 0.05
"""Seconds in which requests for one object are taken together."""


class Requests:
    """Writes the annotation that controllers act upon."""

    def __init__(self, client: Client, gather: float = _GATHER) -> None:
        self._client = client
        self._gather = gather
        self._coming: dict[ObjectRef, asyncio.Task[None]] = {}

    async def request(self, ref: ObjectRef) -> None:
        """Ask for a reconcile of the object; return when that is written.

        Raises:
            ApiError: it cannot be written.
        """
        task = self._coming.get(ref)
        if task is None:
            task = self._coming[ref] = asyncio.create_task(self._write(ref))
        await asyncio.shield(task)

    async def _write(self, ref: ObjectRef) -> None:
        try:
            await asyncio.sleep(self._gather)
        finally:
            # later requests may be about newer content, and need a new write
            del self._coming[ref]
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        body: Json = {"metadata": {"annotations": {REQUESTED_AT: now}}}
        await self._client.patch(ref.gvk, ref.name, ref.namespace, body, strategy="merge")
