"""Wait for health without occupying a worker.

A wait is a set of objects and a deadline. It is checked again only if the health of one of its
objects changes, or the deadline has passed. The caller is notified if the verdict changes, and
reads it. A new wait of the same owner replaces the earlier one, for example for a newer revision.

No IO: health comes from a ``HealthView`` (``live``), time from the clock passed in.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from toolkit.apply import health
from toolkit.apply.health import Health, Status
from toolkit.apply.order import Identity
from toolkit.objects import Json, ObjectKey, ObjectRef, ref_of

_TICK_SECONDS: Final = 0.25
_UNSEEN: Final = Health(Status.UNKNOWN, "not observed yet")
_MAX_SHOWN: Final = 10

State = Literal["waiting", "healthy", "failed", "timeout"]


def vanishing(objects: Iterable[Json]) -> frozenset[Identity]:
    """Return the objects that delete themselves when they are done."""
    return frozenset(ref_of(obj).identity for obj in objects if health.vanishes(obj))


class HealthView(Protocol):
    """The source of health."""

    def health(self, owner: ObjectKey, ref: ObjectRef) -> Health | None:
        """Return the health of an object, or None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a wait: the objects that are not Current yet, and the time it took so far."""

    state: State
    pending: tuple[tuple[ObjectRef, Health], ...]
    seconds: float

    def __str__(self) -> str:
        """List objects not Current, as ``Deployment/apps/web status: 'InProgress': Ready: 0/1``."""
        lines = [
            f"{ref} status: '{found.status.value}': {found.message}"
            for ref, found in self.pending[:_MAX_SHOWN]
        ]
        more = len(self.pending) - _MAX_SHOWN
        return ", ".join(lines + ([f"and {more} more"] if more > 0 else []))


class Waits:
    """All waits of a process; ``on_verdict`` gets the owner whose verdict has changed."""

    def __init__(
        self,
        view: HealthView,
        on_verdict: Callable[[ObjectKey], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._on_verdict = on_verdict
        self._monotonic = monotonic
        self._waits: dict[ObjectKey, _Wait] = {}
        self._running: set[ObjectKey] = set()

    async def run(self) -> None:
        """Let the clock do its part until cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def begin(
        self,
        owner: ObjectKey,
        refs: Iterable[ObjectRef],
        *,
        timeout: float,
        fail_fast: bool = True,
        may_vanish: Collection[Identity] = (),
    ) -> Verdict:
        """Begin to wait for these objects, at most ``timeout`` seconds, and return the verdict.

        With ``fail_fast`` one Failed object ends the wait. Objects that ``may_vanish`` are done if
        they do not exist (see ``vanishing``). ``on_verdict`` is not called for the returned
        verdict.
        """
        now = self._monotonic()
        wait = _Wait(
            began=now,
            deadline=now + timeout,
            fail_fast=fail_fast,
            may_vanish=frozenset(may_vanish),
            open={ref.identity: (ref, _UNSEEN) for ref in refs},
        )
        self._waits[owner] = wait
        self._running.add(owner)
        for ref, _ in tuple(wait.open.values()):
            self._look(owner, wait, ref)
        self._conclude(owner, wait)
        return wait.verdict(now)

    def cancel(self, owner: ObjectKey) -> None:
        """Forget the owner's wait and its verdict."""
        self._waits.pop(owner, None)
        self._running.discard(owner)

    def verdict(self, owner: ObjectKey) -> Verdict | None:
        """Return the verdict of the wait; a verdict other than waiting is final."""
        wait = self._waits.get(owner)
        return wait.verdict(self._monotonic()) if wait else None

    def changed(self, owner: ObjectKey, ref: ObjectRef) -> None:
        """Look at one object again: what ``LiveSet`` calls as ``on_health``."""
        wait = self._waits.get(owner)
        if wait is None or wait.state != "waiting" or not wait.concerns(ref):
            return
        self._look(owner, wait, ref)
        if self._conclude(owner, wait):
            self._on_verdict(owner)

    def tick(self) -> None:
        """Check objects without a watch again, and end waits whose deadline has passed."""
        now = self._monotonic()
        for owner in tuple(self._running):
            wait = self._waits[owner]
            unseen = [ref for ref, health in wait.open.values() if health is _UNSEEN]
            for ref in unseen:
                self._look(owner, wait, ref)
            if (unseen or wait.deadline <= now) and self._conclude(owner, wait):
                self._on_verdict(owner)

    def _look(self, owner: ObjectKey, wait: "_Wait", ref: ObjectRef) -> None:
        found = self._view.health(owner, ref) or _UNSEEN
        done = found.status is Status.NOT_FOUND and ref.identity in wait.may_vanish
        if done or found.status is Status.CURRENT:
            wait.open.pop(ref.identity, None)
            wait.met[ref.identity] = ref
        else:
            # An object that was Current may have degraded while others were awaited.
            wait.met.pop(ref.identity, None)
            wait.open[ref.identity] = (ref, found)

    def _conclude(self, owner: ObjectKey, wait: "_Wait") -> bool:
        """Settle the state; tell whether the wait has just ended."""
        now = self._monotonic()
        wait.state = wait.decide(now)
        if wait.state == "waiting":
            return False
        wait.ended = now
        self._running.discard(owner)
        return True


@dataclass(slots=True, kw_only=True)
class _Wait:
    began: float
    deadline: float
    fail_fast: bool
    may_vanish: frozenset[Identity]
    open: dict[Identity, tuple[ObjectRef, Health]]
    met: dict[Identity, ObjectRef] = field(default_factory=dict)
    state: State = "waiting"
    ended: float | None = None

    def concerns(self, ref: ObjectRef) -> bool:
        return ref.identity in self.open or ref.identity in self.met

    def decide(self, now: float) -> State:
        """Return the state that the open objects and the time make."""
        failed = [h for _, h in self.open.values() if h.status is Status.FAILED]
        if not self.open:
            return "healthy"
        if failed and (self.fail_fast or len(failed) == len(self.open)):
            return "failed"
        return "timeout" if now >= self.deadline else "waiting"

    def verdict(self, now: float) -> Verdict:
        pending = sorted(self.open.values(), key=lambda item: item[0])
        return Verdict(
            state=self.state,
            pending=tuple(pending),
            seconds=(now if self.ended is None else self.ended) - self.began,
        )
