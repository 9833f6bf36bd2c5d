"""Send deliveries to services: Providers are concurrent, the deliveries of each are in order.

After a failure, the sender retries with growing delays, or after the time in ``Retry-After``. Only
the deliveries of this Provider wait. If a service rejects an event for good, the event is dropped,
and the condition of the Provider says so.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import prometheus_client as prom

from controllers.notification.events.matching import Notice
from controllers.notification.events.spool import Delivery, Spool
from controllers.notification.sending.asking import Asking
from controllers.notification.sending.targets import Place
from controllers.notification.services import SERVICES, limits
from controllers.notification.services.git import naming
from controllers.notification.services.service import UnsuitableError
from crds.notification import Provider
from toolkit import telemetry
from toolkit.errors import PenstockError, StalledError, TransientError
from toolkit.expressions.evaluator import Evaluates
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http.http import Http
from toolkit.turns import Turns

logger = logging.getLogger(__name__)

SENT: Final = prom.Counter(
    "penstock_notifications",
    "Deliveries, by type of Provider and what became of them.",
    ("type", "result"),
)
AT_ONCE: Final = 32
"""Concurrent requests to services, for all Providers whose last one succeeded."""
_DOUBTFUL: Final = 16
"""The same for Providers whose last one failed or was slow, so that they delay no others."""
_SLOW_SECONDS: Final = 5.0
_ENDLESS: Final = 1 << 30
"""No limit: a waiting Provider has one task, and its events are on disk."""
_BATCH: Final = 64
_KEPT_SECONDS: Final = 0.2
"""Seconds after which sent deliveries are removed from the spool together."""
_MOST_REQUESTS: Final = 3
"""The time limit of a delivery, as a multiple of ``spec.timeout``."""
_LONGEST_DELIVERY: Final = 60.0
"""The longest time limit in seconds, because other deliveries wait for the turn."""
_LONGEST_WAIT: Final = 300.0
_MOST_HOURS: Final = 24.0
_RETRIED: Final = frozenset({0, 401, 403, 404, 407, 408, 425, 429})
"""Statuses below 500 that may change: a user corrects a token, or creates a chat room."""


class Providers(Protocol):
    """The cache of Providers: an informer."""

    def get(self, key: ObjectKey) -> Provider | None:
        """Return a Provider."""

    def subscribe(self, handler: Callable[[Change[Provider]], None]) -> None:
        """Tell ``handler`` of each change."""

    async def wait_synced(self) -> None:
        """Return when the cache is complete."""


@dataclass(frozen=True, slots=True)
class Health:
    """The result of the last attempt; ``problem`` is empty if the service accepted it."""

    problem: str
    reason: str = "Delivered"
    waiting: int = 0


class Sender:
    """Sends until cancelled; ``wake`` it when a delivery was added or a Provider has changed."""

    def __init__(
        self,
        spool: Spool,
        *,
        place: Callable[[Provider], Awaitable[Place]],
        http: Http,
        evaluates: Evaluates,
        pause: float = 1.0,
    ) -> None:
        """Prepare; ``pause`` is the first one after a failure."""
        self._spool = spool
        self._place = place
        self._http = http
        self._evaluates = evaluates
        self._pause = pause
        self._providers: Providers | None = None
        self._changed: Callable[[ObjectKey], None] = _nobody
        self._health: dict[ObjectKey, Health] = {}
        self._woken: dict[ObjectKey, asyncio.Event] = {}
        self._working: dict[ObjectKey, asyncio.Task[None]] = {}
        # Fair between namespaces: one with many Providers that are slow takes not every turn.
        self._turns = Turns(places=AT_ONCE, waiting=_ENDLESS)
        self._doubtful = Turns(places=_DOUBTFUL, waiting=_ENDLESS)
        self._slow: set[ObjectKey] = set()
        self._group: asyncio.TaskGroup | None = None
        self._finishing = False

    def health(self, key: ObjectKey) -> Health | None:
        """Return the result of the last attempt; None before the first attempt."""
        return self._health.get(key)

    def wake(self, key: ObjectKey) -> None:
        """Look for what there is to send."""
        if key in self._woken:
            self._woken[key].set()
        group = None if self._finishing else self._group
        if group is None or key in self._working or not self._spool.waiting(key):
            return
        self._woken[key] = asyncio.Event()
        self._working[key] = group.create_task(self._work(key))

    async def finish(self, seconds: float) -> None:
        """Send the remaining deliveries for at most ``seconds``, and then stop.

        A Provider that waits after a failure is not tried again.
        """
        self._finishing = True
        for woken in self._woken.values():
            woken.set()
        under_way = list(self._working.values())
        if not under_way:
            return
        _, late = await asyncio.wait(under_way, timeout=seconds)
        for each in late:
            each.cancel()
        if late:
            await asyncio.wait(late)

    def follow(self, providers: Providers, *, changed: Callable[[ObjectKey], None]) -> None:
        """Use these Providers; ``changed`` is called when the health of one changes."""
        self._providers, self._changed = providers, changed
        providers.subscribe(self._saw)

    def _saw(self, change: Change[Provider]) -> None:
        if change.new is None:
            self._health.pop(change.key, None)
            self._slow.discard(change.key)
        self.wake(change.key)

    def _find(self, key: ObjectKey) -> Provider | None:
        return self._providers.get(key) if self._providers else None

    async def run(self) -> None:
        """Send until cancelled."""
        if self._providers is not None:
            # One that is not in the cache yet would look as if it were gone.
            await self._providers.wait_synced()
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for key in self._spool.providers():
                    self.wake(key)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def _work(self, key: ObjectKey) -> None:
        """Send the deliveries of one Provider until none is left."""
        failures = 0
        try:
            while self._spool.waiting(key) and not (failures and self._finishing):
                self._woken[key].clear()
                wait = await self._round(key, failures)
                failures = failures + 1 if wait else 0
                if wait:
                    await self._rest(key, wait)
        finally:
            self._working.pop(key, None)
            self._woken.pop(key, None)
        if self._spool.waiting(key):  # added since
            self.wake(key)

    async def _rest(self, key: ObjectKey, seconds: float) -> None:
        """Wait, but no longer than until the Provider changes."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    generation = self._generation(key)
                    await self._woken[key].wait()
                    self._woken[key].clear()
                    if self._finishing or self._generation(key) != generation:
                        return
        except TimeoutError:
            return

    def _generation(self, key: ObjectKey) -> tuple[str, int]:
        provider = self._find(key)
        return (provider.metadata.uid, provider.metadata.generation) if provider else ("", 0)

    async def _round(self, key: ObjectKey, failures: int) -> float:
        """Send some deliveries; return the seconds until the next round."""
        provider = self._find(key)
        if provider is None or provider.metadata.deletion_timestamp or provider.spec.suspend:
            dropped = await self._spool.clear(key)
            logger.info("events dropped", extra={"provider": str(key), "count": dropped})
            return 0.0
        try:
            place = await self._signed_in(key, await self._place(provider), failures)
        except PenstockError as exc:
            self._tell(key, Health(str(exc), exc.reason, self._spool.waiting(key)))
            return self._delay(failures, None)
        settled = _Settled(self._spool, key)
        try:
            for delivery in await self._spool.next(key, _BATCH):
                wait = await self._deliver(key, place, delivery, failures)
                if wait:
                    return wait
                await settled.add(delivery.id)
        finally:
            await settled.remove()
        return 0.0

    async def _signed_in(self, key: ObjectKey, place: Place, failures: int) -> Place:
        """Return the place with a requested token; the request takes a turn."""
        if place.borrow is None:
            return place
        try:
            async with self._turn(key, place, failures):
                return await place.signed_in()
        except TimeoutError as exc:
            raise TransientError(
                "nobody gave a token in time", reason="AuthenticationFailed"
            ) from exc

    @contextlib.asynccontextmanager
    async def _turn(self, key: ObjectKey, place: Place, failures: int) -> AsyncIterator[None]:
        """Hold a turn for one delivery, which ends in time."""
        turns = self._doubtful if failures or key in self._slow else self._turns
        seconds = min(place.timeout * _MOST_REQUESTS, _LONGEST_DELIVERY)
        clock = asyncio.get_running_loop().time
        async with turns.turn(key.namespace):
            began = clock()
            try:
                async with asyncio.timeout(seconds):
                    yield
            finally:
                (self._slow.add if clock() - began > _SLOW_SECONDS else self._slow.discard)(key)

    async def _deliver(
        self, key: ObjectKey, place: Place, delivery: Delivery, failures: int
    ) -> float:
        """Send one delivery; return the seconds until the next attempt, 0 if none is needed."""
        kind = place.target.type
        try:
            async with self._turn(key, place, failures):
                await self._send(delivery, place)
        except (PenstockError, TimeoutError) as exc:
            problem = place.masked(str(exc) or "the service did not respond in time")
            if isinstance(exc, AuthError):
                place.refused()
            for_good = _for_good(exc) or time.time() - delivery.since > _MOST_HOURS * 3600
            reason = "EventRefused" if for_good else "DeliveryFailed"
            SENT.labels(kind, "refused" if for_good else "failed").inc()
            self._tell(key, Health(problem, reason, self._spool.waiting(key)))
            if not for_good:
                return self._delay(failures, getattr(exc, "retry_after", None))
            telemetry.EVENTS_DROPPED.labels("provider").inc()
        else:
            SENT.labels(kind, "sent").inc()
            self._tell(key, Health(""))
        return 0.0

    async def _send(self, delivery: Delivery, place: Place) -> None:
        """Send one delivery with the code of its service, which reads answers of a foreign server.

        An error of this code stays with this delivery: all deliveries share one task group.
        """
        try:
            notice = msgspec.json.decode(delivery.notice, type=Notice)
            notice = msgspec.structs.replace(notice, key=delivery.key)
            target = await naming.named(self._evaluates, notice, place.target)
            notice = limits.fitted(notice, target.type)
            await SERVICES[target.type](notice, target, Asking(self._http, place))
        except (PenstockError, TimeoutError):
            raise
        except Exception as exc:
            # The text of the error may hold what the server sent.
            logger.error(  # noqa: TRY400 - the same
                "event not sent", extra={"type": place.target.type, "error": type(exc).__name__}
            )
            raise TransientError(
                f"the event could not be sent: {type(exc).__name__} (a bug; please report it)"
            ) from exc

    def _delay(self, failures: int, asked: float | None) -> float:
        growing: float = min(self._pause * 2 ** min(failures, 16), _LONGEST_WAIT)
        return max(growing, min(asked or 0.0, _LONGEST_WAIT))

    def _tell(self, key: ObjectKey, health: Health) -> None:
        before = self._health.get(key)
        self._health[key] = health
        if before is None or (before.problem, before.reason) != (health.problem, health.reason):
            if health.problem:
                logger.warning(
                    "event not delivered", extra={"provider": str(key), "error": health.problem}
                )
            self._changed(key)


class _Settled:
    """Deliveries that were made: they leave the spool together, but soon."""

    def __init__(self, spool: Spool, key: ObjectKey) -> None:
        self._spool = spool
        self._key = key
        self._ids: list[int] = []
        self._since = 0.0

    async def add(self, delivery: int) -> None:
        """Remove a delivery, now or with those that follow."""
        now = asyncio.get_running_loop().time()
        self._since = self._since if self._ids else now
        self._ids.append(delivery)
        if now - self._since > _KEPT_SECONDS:
            await self.remove()

    async def remove(self) -> None:
        """Remove them now."""
        ids, self._ids = self._ids, []
        if ids:
            await self._spool.remove(self._key, ids)


def _nobody(_key: ObjectKey) -> None:
    """Do nothing."""


def _for_good(exc: Exception) -> bool:
    """Tell whether trying again cannot help."""
    if isinstance(exc, UnsuitableError | StalledError):
        return True
    refused = isinstance(exc, HttpError) and not isinstance(exc, AuthError)
    status = getattr(exc, "status", 0)
    return refused and 400 <= status < 500 and status not in _RETRIED
