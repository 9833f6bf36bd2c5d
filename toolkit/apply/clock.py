"""What time the API server has at least: the proof that a dry-run changed no value.

A server-side apply that changes a value stamps our managedFields entry with the server's present
second; any other leaves the old stamp, also one that changes only who owns what. So a dry-run
answer whose stamp lies in the server's past proves that the write would leave all values as they
are. With the entry itself unchanged the write is a no-op and can be spared (``check``). Our own
clock cannot tell that past, since it may be wrong by hours; one ``SelfSubjectReview`` an hour,
which the server stamps, can. Stamps found on objects are not learnt from: their owners may write
what they like.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from toolkit.kube import client, errors
from toolkit.objects import dig

_MARGIN_SECONDS: Final = 60.0
"""Stamps have whole seconds, and replicas of the server may disagree on the time."""
_REFRESH_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 60.0
_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class ServerClock:
    """A lower bound of one cluster's clock, shared by all who apply to that cluster."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = float("-inf")
        self._due = float("-inf")
        self._lock = asyncio.Lock()

    async def learn(self, api: client.Client) -> None:
        """Ask the server for its time unless it was asked lately; a failure is left for later."""
        async with self._lock:
            if self._monotonic() < self._due:
                return
            self._due = self._monotonic() + _RETRY_SECONDS
            try:
                review = await api.request("POST", _PATH, body=_BODY)
            except errors.ApiError:
                return
            answered = self._monotonic()
            stamp = _seconds(dig(review, "metadata", "creationTimestamp", default=""))
            if stamp is not None:
                self._offset = stamp - answered
                self._due = answered + _REFRESH_SECONDS

    def past(self, stamp: str) -> bool:
        """Tell whether ``stamp`` (RFC 3339) surely lies in the server's past."""
        seconds = _seconds(stamp)
        return seconds is not None and (
            seconds < self._offset + self._monotonic() - _MARGIN_SECONDS
        )


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None
