"""The work queue: which object is reconciled next, and when it is tried again.

A key is in the queue at most once, and its triggers accumulate. No two workers have the same key.
Namespaces take turns, so that a thousand objects of one tenant, or failing ones, do not block
others. A namespace that uses its share of the workers gets no more, because a tenant may make a
reconciliation hang with a server that does not answer. Times are those of the event loop. The queue
does not interpret keys.
"""

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from toolkit import telemetry
from toolkit.objects import ObjectKey

_JITTER: Final = 0.1


class QueueClosedError(Exception):
    """The queue is shut down; there is no next item."""


@dataclass(frozen=True, slots=True)
class Item:
    """A key, and all triggers since it was last handed out."""

    key: ObjectKey
    triggers: frozenset[str]


class WorkQueue:
    """``add`` → ``get`` → ``done``; ``retry`` adds a key again with exponential back-off.

    ``share`` is the number of keys of one namespace that may be in work at once; 0 means no limit.
    """

    def __init__(self, name: str, *, min_delay: float, max_delay: float, share: int = 0) -> None:
        self._share = share
        self._held: Counter[str] = Counter()
        self._min_delay = min_delay
        self._max_delay = max_delay
        self._dirty: dict[ObjectKey, set[str]] = {}
        self._added: dict[ObjectKey, float] = {}
        self._working: dict[ObjectKey, float] = {}
        self._ready: OrderedDict[str, deque[ObjectKey]] = OrderedDict()
        self._timers: dict[ObjectKey, dict[str, asyncio.TimerHandle]] = {}
        self._failures: dict[ObjectKey, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._metrics = _Metrics(name, lambda: len(self._dirty))

    def add(self, key: ObjectKey, trigger: str) -> None:
        """Ask for ``key`` now; while a worker holds it, for another round afterwards."""
        if self._closed:
            return
        self.cancel(key, trigger)
        triggers = self._dirty.get(key)
        if triggers is not None:
            triggers.add(trigger)
            return
        self._dirty[key] = {trigger}
        self._added[key] = _now()
        self._metrics.adds.inc()
        if key not in self._working:
            self._push(key)

    def add_after(self, key: ObjectKey, delay: float, trigger: str) -> None:
        """Queue ``key`` in ``delay`` seconds; replaces the earlier plan of the same trigger."""
        if self._closed:
            return
        if delay <= 0:
            self.add(key, trigger)
            return
        self.cancel(key, trigger)
        timer = asyncio.get_running_loop().call_later(delay, self.add, key, trigger)
        self._timers.setdefault(key, {})[trigger] = timer

    def retry(self, key: ObjectKey) -> float:
        """Ask for ``key`` after a delay that doubles with each failure; return the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._max_delay, self._min_delay * 2.0 ** min(failures, 63))
        delay *= 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - jitter
        self._metrics.retries.inc()
        self.add_after(key, delay, "retry")
        return delay

    def forget(self, key: ObjectKey) -> None:
        """Reset the back-off of ``key``: it has succeeded, or waits for something else."""
        self._failures.pop(key, None)

    def cancel(self, key: ObjectKey, *triggers: str) -> None:
        """Drop the plan of a trigger, or all plans if no trigger is given."""
        timers = self._timers.get(key)
        for trigger in triggers or tuple(timers or ()):
            timer = timers.pop(trigger, None) if timers else None
            if timer:
                timer.cancel()
        if timers is not None and not timers:
            del self._timers[key]

    async def get(self) -> Item:
        """Wait for the next key, and hold it until ``done``.

        Raises:
            QueueClosedError: after ``shutdown``.
        """
        self._metrics.follow(self._working)
        while (key := self._pop()) is None and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        if key is None:
            raise QueueClosedError
        triggers = frozenset(self._dirty.pop(key))
        self._working[key] = _now()
        self._held[key.namespace] += 1
        self._metrics.latency.observe(_now() - self._added.pop(key))
        return Item(key, triggers)

    def done(self, key: ObjectKey) -> None:
        """Return ``key``; it is handed out again if it was added meanwhile."""
        self._metrics.work.observe(_now() - self._working.pop(key))
        self._held[key.namespace] -= 1
        if not self._held[key.namespace]:
            del self._held[key.namespace]
        if key in self._dirty:
            self._push(key)
        elif key.namespace in self._ready:
            self._wake()

    def shutdown(self) -> None:
        """Drop all that waits or is planned, and release every waiting worker."""
        self._closed = True
        for key in tuple(self._timers):
            self.cancel(key)
        self._dirty.clear()
        self._added.clear()
        self._ready.clear()
        while self._waiters:
            self._wake()

    def __len__(self) -> int:
        return len(self._dirty)

    def _push(self, key: ObjectKey) -> None:
        self._ready.setdefault(key.namespace, deque()).append(key)
        self._wake()

    def _pop(self) -> ObjectKey | None:
        """Take the oldest key of the namespace whose turn it is; None if all have their share."""
        for namespace, keys in self._ready.items():
            if not self._share or self._held[namespace] < self._share:
                del self._ready[namespace]
                key = keys.popleft()
                if keys:
                    self._ready[namespace] = keys
                return key
        return None

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        """Do not lose a wake-up whose worker was cancelled before it ran."""
        if waiter.done() and not waiter.cancelled():
            self._wake()
        elif waiter in self._waiters:
            self._waiters.remove(waiter)


class _Metrics:
    """The client-go ``workqueue_*`` series of one queue."""

    def __init__(self, name: str, depth: Callable[[], float]) -> None:
        self.adds = telemetry.QUEUE_ADDS.labels(name)
        self.retries = telemetry.QUEUE_RETRIES.labels(name)
        self.latency = telemetry.QUEUE_LATENCY.labels(name)
        self.work = telemetry.QUEUE_WORK.labels(name)
        self._unfinished = telemetry.QUEUE_UNFINISHED.labels(name)
        self._longest = telemetry.QUEUE_LONGEST.labels(name)
        self._following = False
        telemetry.QUEUE_DEPTH.labels(name).set_function(depth)

    def follow(self, working: Mapping[ObjectKey, float]) -> None:
        """Collect the ages of the work in progress at each scrape, which runs in a thread."""
        if self._following:
            return
        self._following = True
        clock = asyncio.get_running_loop().time

        def ages() -> list[float]:
            return [clock() - began for began in tuple(working.values())]

        self._unfinished.set_function(lambda: sum(ages()))
        self._longest.set_function(lambda: max(ages(), default=0.0))


def _now() -> float:
    return asyncio.get_running_loop().time()
