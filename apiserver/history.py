"""The recent events of a resource: one bounded log for all its watches.

A watch is a position in this log, not a queue: a slow one costs nothing, and one that is behind the
log gets 410. The log is bounded by the number of events, their memory and their age.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from apiserver.item import Event

_FRESH: Final = 64
"""Events whose encoded lines are kept."""
_SOME: Final = 200
_SOME_WEIGHT: Final = 1 << 20
_SLACK: Final = 256
"""Events are dropped so many at a time, for the cost of moving the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of the log: events, approximate bytes, and seconds."""

    events: int = 10_000
    weight: int = 64 << 20
    age: float = 300.0
    """etcd is compacted as often (``--etcd-compaction-interval``)."""


class History:
    """Events in the order of their versions; places are counted from the first event ever."""

    def __init__(self, *, time: Callable[[], float], bounds: Bounds) -> None:
        self._time = time
        self._bounds = bounds
        self._events: list[Event] = []
        self._first = 0
        self._weight = 0
        self.floor = 0
        """The version from which on everything is here."""
        self.since = time()
        """The moment from which on everything is here."""

    @property
    def end(self) -> int:
        """Return the place after the last event."""
        return self._first + len(self._events)

    def begin(self, version: int) -> None:
        """Start here: nothing of the time before can be resumed."""
        self.floor = version
        self.since = self._time()

    def append(self, event: Event) -> None:
        """Add the newest event, and drop events beyond the limits."""
        self._events.append(event)
        self._weight += event.weight
        if len(self._events) > _FRESH:
            self._events[-_FRESH - 1].settle()
        if self._overfull():
            self._trim()

    def read(self, place: int, limit: int) -> Sequence[Event] | None:
        """Return at most ``limit`` events from a position on; None if they were dropped."""
        index = place - self._first
        return None if index < 0 else self._events[index : index + limit]

    def some(self, place: int) -> Sequence[Event] | None:
        """Return as many events from a position on as a slow client may hold."""
        events = self.read(place, _SOME)
        if not events or sum(event.weight for event in events) <= _SOME_WEIGHT:
            return events
        weight, count = 0, 0
        for event in events:
            weight += event.weight
            count += 1
            if weight > _SOME_WEIGHT:
                break
        return events[:count]

    def holds(self, place: int) -> bool:
        """Tell whether everything from a place on is here."""
        return place >= self._first

    def after(self, version: int) -> int:
        """Return the place of the first event after a version."""
        return self._first + bisect_right(self._events, version, key=attrgetter("version"))

    def at(self, moment: float) -> int:
        """Return the place of the first event that happened at a moment or later."""
        return self._first + bisect_left(self._events, moment, key=attrgetter("at"))

    def _overfull(self) -> bool:
        bounds = self._bounds
        return (
            len(self._events) > bounds.events + _SLACK
            or self._weight > bounds.weight
            or self._time() - self._events[0].at > bounds.age * 1.25
        )

    def _trim(self) -> None:
        """Drop from the oldest on until all bounds hold with some slack."""
        young = self._time() - self._bounds.age
        light = self._bounds.weight * 3 // 4
        count = 0
        # the last one stays, however heavy: its watchers are about to read it
        for event in self._events[:-1]:
            few = len(self._events) - count <= self._bounds.events
            if few and self._weight <= light and event.at >= young:
                break
            self._weight -= event.weight
            count += 1
        if count:
            last = self._events[count - 1]
            self.floor, self.since = last.version, last.at
            del self._events[:count]
            self._first += count
