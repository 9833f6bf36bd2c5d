"""Lists that may be as old as the caller's knowledge, which the API server answers faster.

A list without a resourceVersion is consistent. The API server answers it from its cache, but first
waits until the cache has all earlier writes, including those to other resources; it asks etcd for
its progress every 100 ms (KEP-2340). Actions begin with such a list, and it occupies a worker. A
list that may be as old as a given resourceVersion is answered at once.

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
