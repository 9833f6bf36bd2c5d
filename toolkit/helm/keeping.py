"""Namespaces that Helm must not delete, whatever a chart or its hooks say.

Every deletion of an action passes through this process: when a release is uninstalled, when an
upgrade drops an object, and before or after a hook. The answer for a kept Namespace is that it does
not exist. Helm takes this for done, and goes on.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote

import msgspec

from toolkit.helm.gates import Exchanging, Response

_PLACE: Final = ["api", "v1", "namespaces"]


class Keeping:
    """An identity that cannot delete these namespaces; ``kept`` gets each that it tried to delete.

    It cannot delete all Namespaces at once either, if there is one to keep.
    """

    def __init__(
        self, client: Exchanging, names: frozenset[str], kept: Callable[[str], object]
    ) -> None:
        self._client = client
        self._names = names
        self._kept = kept

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request, unless it would delete what is kept."""
        refused = self._deleted(target) if method == "DELETE" else frozenset()
        if refused:
            for name in sorted(refused):
                self._kept(name)
            yield 404, {"Content-Type": "application/json"}, _once(_missing(sorted(refused)))
            return
        async with self._client.exchange(method, target, headers=headers, body=body) as response:
            yield response

    def _deleted(self, target: str) -> frozenset[str]:
        """Return the kept namespaces that a deletion is for."""
        parts = [part for part in unquote(target.partition("?")[0]).split("/") if part]
        if parts == _PLACE:
            return self._names
        return self._names.intersection(parts[3:]) if parts[:-1] == _PLACE else frozenset()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _missing(names: list[str]) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'namespaces "{", ".join(names)}" not found: it is kept, and not deleted',
            "reason": "NotFound",
            "details": {"name": names[0], "kind": "namespaces"},
            "code": 404,
        }
    )
