"""A lower bound of the API server's time, to prove that a dry-run changed no value.

A server-side apply that changes a value sets the time of our managedFields entry to the server's
current second. Any other apply leaves the old time, even if it changes the owners of fields. So if
the time in a dry-run answer is in the server's past, the write would leave all values as they are.
If the entry itself is unchanged too, the write would do nothing and is skipped (``check``). Our own
clock cannot tell the server's past, because it may be wrong by hours. One ``SelfSubjectReview`` per
hour, in which the server writes its time, can. Times in objects are not used, because their owners
can write any value.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from toolkit import times
from toolkit.kube import client, errors
from toolkit.objects import dig

_MARGIN_SECONDS: Final = 60.0
"""Stamps have whole seconds, and replicas of the server may disagree on the time."""
_REFRESH_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 60.0
_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class ServerClock:
    """A lower bound of the time of one cluster, shared by all that apply to the cluster."""

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
        """Tell whether ``stamp`` (RFC 3339) is certainly in the server's past."""
        seconds = _seconds(stamp)
        return seconds is not None and (
            seconds < self._offset + self._monotonic() - _MARGIN_SECONDS
        )


def _seconds(stamp: str) -> float | None:
    moment = times.moment(stamp)
    return moment.timestamp() if moment else None
