"""Observe the writes of an action by reading the answers while they are forwarded.

The API server answers a write with the current object. It shows, without a further request, which
version of the object a watch must show before its health counts, and which fields are ours. Other
answers are forwarded and not observed.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from toolkit.helm.gates import Exchanging, Response
from toolkit.objects import Json

Seen = Callable[[str, str, Json], None]
"""Told method, path and answer of a request that went well. Must not block."""

_MOST: Final = 8 << 20
"""Bytes of an answer; etcd takes no object of a fifth of that."""
_DECODER: Final = msgspec.json.Decoder(dict[str, object])


class Witness:
    """An identity whose requests with one of these methods are seen."""

    def __init__(self, client: Exchanging, seen: Seen, *, methods: frozenset[str]) -> None:
        self._client = client
        self._seen = seen
        self._methods = methods

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request, and see its answer once all of it has passed."""
        async with self._client.exchange(method, target, headers=headers, body=body) as (
            status,
            answered,
            chunks,
        ):
            path, _, query = target.partition("?")
            sees = status < 300 and method in self._methods and "dryRun" not in query
            yield status, answered, self._kept(method, path, chunks) if sees else chunks

    async def _kept(
        self, method: str, path: str, chunks: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        kept = bytearray()
        async for chunk in chunks:
            if len(kept) <= _MOST:
                kept += chunk
            yield chunk
        try:
            answer = _DECODER.decode(kept)
        except (ValueError, RecursionError):
            return
        self._seen(method, path, answer)
