"""Writes under a field manager, so that the API server keeps who wrote an object.

Without one the API server takes the name from the User-Agent, which is that of the HTTP library.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from toolkit.helm.gates import Exchanging, Response

_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})


class Signing:
    """An identity whose writes carry ``manager``."""

    def __init__(self, client: Exchanging, *, manager: str) -> None:
        self._client = client
        self._query = f"fieldManager={quote(manager, safe='')}"

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request."""
        if method in _WRITES:
            target += ("&" if "?" in target else "?") + self._query
        async with self._client.exchange(method, target, headers=headers, body=body) as answer:
            yield answer
