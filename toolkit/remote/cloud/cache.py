"""A cache of credentials: each is requested once for all callers, and renewed before it expires.

Concurrent callers wait for the same request. An error is returned again for some seconds without a
request. While the issuer is unreachable, credentials that are still valid are used.
"""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeVar, cast

import prometheus_client as prom

from toolkit.errors import PenstockError


class Expiring(Protocol):
    """A credential with an expiry."""

    @property
    def expires_at(self) -> datetime:
        """Return when it ends."""


T = TypeVar("T", bound=Expiring)

# Flux's names (pkg/cache). The object's labels stay empty: a credential serves many objects.
EVENTS: Final = prom.Counter(
    "gotk_token_cache_events",
    "Lookups in the token cache, hit or miss.",
    ("event_type", "kind", "name", "namespace", "operation"),
)
REQUESTS: Final = prom.Counter(
    "gotk_token_cache_requests", "Tokens that were asked for.", ("status",)
)
EVICTIONS: Final = prom.Counter("gotk_token_cache_evictions", "Tokens that made room for others.")
ITEMS: Final = prom.Gauge("gotk_token_cached_items", "Tokens that are kept.")

_SHARE: Final = 0.8
"""The fraction of its life after which a credential is renewed (Flux: pkg/cache, TokenCache)."""
_REFUSED: Final = timedelta(seconds=10)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_NEW: Final = timedelta(minutes=1)
_SPARE: Final = timedelta(minutes=1)


class TokenCache:
    """At most ``size`` credentials, none longer than ``longest``; a size of 0 keeps nothing."""

    def __init__(
        self,
        *,
        size: int = 100,
        longest: timedelta = timedelta(hours=1),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._size = size
        self._longest = longest
        self.now = now
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()

    async def get(
        self, operation: str, key: tuple[Hashable, ...], fetch: Callable[[], Awaitable[T]]
    ) -> T:
        """Return the credential cached under ``operation`` and ``key``, or that of ``fetch``.

        The key must contain everything that determines the credential.

        Raises:
            PenstockError: an error of ``fetch``, now or a few seconds ago.
        """
        if self._size <= 0:
            return await _counted(fetch)
        slot = self._slot((operation, *key))
        # One at a time: a hundred objects with one identity need only one token.
        async with slot.lock:
            kind = "cache_hit" if slot.fresh(self.now()) else "cache_miss"
            EVENTS.labels(kind, "", "", "", operation).inc()
            if kind == "cache_miss":
                await self._renew(slot, fetch)
            return cast("T", slot.value)

    def drop(self, value: Expiring) -> bool:
        """Drop a refused credential; return whether a new one may help.

        A new credential is kept: if it is refused there is another reason, and other callers must
        not request it again.
        """
        before = self.now() - _NEW
        kept = [key for key, slot in self._slots.items() if slot.value is value]
        old = [key for key in kept if self._slots[key].asked_at <= before]
        for key in old:
            del self._slots[key]
        ITEMS.set(len(self._slots))
        return bool(old)

    def _slot(self, key: Hashable) -> "_Slot":
        slot = self._slots.setdefault(key, _Slot())
        self._slots.move_to_end(key)
        while len(self._slots) > self._size:
            self._slots.popitem(last=False)
            EVICTIONS.inc()
        ITEMS.set(len(self._slots))
        return slot

    async def _renew(self, slot: "_Slot", fetch: Callable[[], Awaitable[Expiring]]) -> None:
        now = self.now()
        if slot.error is not None and now < slot.quiet_until:
            # The cause tells an outage from a refusal (``asking.unsigned``), and no copy has it.
            raise copy.copy(slot.error) from slot.error.__cause__
        try:
            slot.value = await _counted(fetch)
        except PenstockError as error:
            slot.quiet_until = now + _REFUSED
            if slot.value is not None and now + _SPARE < slot.value.expires_at:
                slot.renew_at = slot.quiet_until
                return
            slot.error, slot.value = error, None
            raise
        slot.asked_at = now
        life = min(slot.value.expires_at - now, self._longest)
        slot.renew_at, slot.error = now + _SHARE * life, None


@dataclass(slots=True)
class _Slot:
    """A cached credential or error, and the lock for its callers."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: Expiring | None = field(default=None, repr=False)
    asked_at: datetime = _LONG_AGO
    renew_at: datetime = _LONG_AGO
    error: PenstockError | None = None
    quiet_until: datetime = _LONG_AGO

    def fresh(self, now: datetime) -> bool:
        """Tell whether the credential need not be renewed yet."""
        return self.value is not None and now < self.renew_at


async def _counted(fetch: Callable[[], Awaitable[T]]) -> T:
    try:
        value = await fetch()
    except BaseException:
        REQUESTS.labels("failure").inc()
        raise
    REQUESTS.labels("success").inc()
    return value
