"""Quotas for uploads: concurrent, per minute and in total, for each namespace.

Stored bytes are measured in the store and not counted here, so a restart loses nothing.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from toolkit.artifact.locks import Locks
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Bounds on uploads."""

    artifact_bytes: int = 256 << 20
    namespace_bytes: int = 2 << 30
    """Quota for the uploads of a namespace together, including older ones in their retention."""
    at_once: int = 16
    namespace_at_once: int = 2
    namespace_a_minute: int = 60


class TooManyError(TransientError):
    """Not now; ``retry_after`` is in seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QuotaError(TransientError):
    """The namespace's artifacts would take too much space."""


class Measure(Protocol):
    """Returns the bytes that a store uses."""

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        """Return the bytes that owners of a kind hold."""
        ...


class Turnstile:
    """Lets uploads in, a bounded number at a time and a minute."""

    def __init__(self, limits: UploadLimits, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._inside: dict[str, int] = {}
        self._allowed_at: OrderedDict[str, float] = OrderedDict()

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Let one upload of a namespace go on.

        Raises:
            TooManyError: too many go on, or came within the last minute. Nobody waits here: a
                sender that waits holds a connection.
        """
        inside = self._inside.get(namespace, 0)
        if inside >= self._limits.namespace_at_once:
            raise TooManyError(f"{inside} uploads to '{namespace}' are under way", retry_after=5)
        if sum(self._inside.values()) >= self._limits.at_once:
            raise TooManyError("too many uploads are under way", retry_after=5)
        self._pace(namespace)
        self._inside[namespace] = inside + 1
        try:
            yield
        finally:
            self._inside[namespace] -= 1
            if not self._inside[namespace]:
                del self._inside[namespace]

    def _pace(self, namespace: str) -> None:
        """Count an upload (a generic cell rate algorithm: one number a namespace)."""
        now, each = self._now(), _MINUTE / self._limits.namespace_a_minute
        earliest = max(self._allowed_at.get(namespace, 0.0), now)
        wait = earliest + each - now - _MINUTE
        if wait > 0:
            raise TooManyError(
                f"more than {self._limits.namespace_a_minute} uploads a minute to '{namespace}'",
                retry_after=int(wait) + 1,
            )
        self._allowed_at[namespace] = earliest + each
        self._allowed_at.move_to_end(namespace)
        while self._allowed_at and next(iter(self._allowed_at.values())) <= now:
            self._allowed_at.popitem(last=False)


class Quota:
    """Keeps the uploads of each namespace within their space."""

    def __init__(self, measure: Measure, *, kind: str, limit: int) -> None:
        self._measure = measure
        self._kind = kind
        self._limit = limit
        self._namespaces = Locks()

    @asynccontextmanager
    async def room(self, namespace: str, size: int) -> AsyncIterator[None]:
        """Reserve ``size`` bytes for the block; one caller at a time, so that sums are right.

        Raises:
            QuotaError: the quota would be exceeded.
        """
        async with self._namespaces.of(namespace):
            await self.require(namespace, size)
            yield

    async def require(self, namespace: str, size: int) -> None:
        """Refuse an upload early if the quota would be exceeded now.

        Raises:
            QuotaError: the quota would be exceeded.
        """
        used = sum((await self._measure.usage(self._kind, namespace)).values())
        if used + size > self._limit:
            raise QuotaError(
                f"the artifacts of {self._kind}s in '{namespace}' take {_mib(used)} of "
                f"{_mib(self._limit)} MiB, and this one has {_mib(size)}: delete some, or wait for "
                "the retention of older ones to end"
            )


_MINUTE: Final = 60.0


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}".removesuffix(".0")
