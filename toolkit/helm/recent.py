"""Lists that need not be newer than what the caller knows.

A list without a resourceVersion is as new as the whole storage. The API server answers it from its
cache, once that has heard of all that was written before: also of writes to other resources, for
which it asks etcd every 100 ms (KEP-2340). An action begins with such a list, and holds a worker
meanwhile. A list that may be as old as a resourceVersion is answered at once.

An API server whose storage was restored from a backup may not know that resourceVersion. The list
is then requested without it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from toolkit.helm.gates import Exchanging, Response

_UNKNOWN: Final = frozenset({HTTPStatus.GONE, HTTPStatus.GATEWAY_TIMEOUT})
"""Answers to a resourceVersion that is too old, or too new (Kubernetes API concepts)."""


class Recent:
    """An identity whose lists may be as old as ``since``; 0 does not allow that."""

    def __init__(self, client: Exchanging, since: Callable[[], int]) -> None:
        self._client = client
        self._since = since

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        """Send a request."""
        since = self._since() if method == "GET" and "?" in target else 0
        if since:
            aged = f"{target}&resourceVersion={since}&resourceVersionMatch=NotOlderThan"
            async with self._client.exchange(method, aged, headers=headers, body=body) as answer:
                if answer[0] not in _UNKNOWN:
                    yield answer
                    return
        async with self._client.exchange(method, target, headers=headers, body=body) as answer:
            yield answer
