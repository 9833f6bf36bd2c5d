"""Events that were sent recently.

Flux drops an event that is equal to one within ``--rate-limit-interval``. That hides the second of
two failures with a success between them (notification-controller#445, #509). Here an event of
another severity resets the history of its object, so the first event of a new state is sent.

An object that fails again and again must not send all of that. So the remediation of a failure
resets nothing, and an equal event is sent only a few times within the interval, whatever came in
between.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from controllers.notification.events.event import Event

_MOST_OBJECTS: Final = 20_000
_MOST_EVENTS: Final = 64
"""Different events of one object that are remembered."""
_MOST_EQUAL: Final = 3
"""Equal events that are sent within the interval if the state changes in between."""
_REMEDIATIONS: Final = frozenset({"RollbackSucceeded", "UninstallSucceeded"})
"""Reasons of events about what was done after a failure, which is not over."""


class _Told:
    """The recent events of one object: the times at which each was sent, and the current state.

    ``state`` counts the changes of severity.
    """

    __slots__ = ("failing", "sent", "state")

    def __init__(self, *, failing: bool) -> None:
        self.failing = failing
        self.state = 0
        self.sent: OrderedDict[str, list[tuple[float, int]]] = OrderedDict()

    def enter(self, *, failing: bool) -> None:
        """Note the severity of the newest event."""
        if failing != self.failing:
            self.failing = failing
            self.state += 1


class Duplicates:
    """Remembers events for ``interval`` seconds."""

    def __init__(self, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._objects: OrderedDict[tuple[str, str], _Told] = OrderedDict()

    def seen(self, event: Event) -> bool:
        """Tell whether an event equals one that was sent, and note it otherwise."""
        now, failing = self._clock(), event.severity == "error"
        key = (str(event.involved_object), event.involved_object.uid)
        told = self._objects.get(key)
        if told is None:
            told = self._objects[key] = _Told(failing=failing)
        elif failing or event.reason not in _REMEDIATIONS:
            told.enter(failing=failing)
        self._objects.move_to_end(key)
        while len(self._objects) > _MOST_OBJECTS:
            self._objects.popitem(last=False)
        sent = told.sent.get(event.identity, [])
        recent = [each for each in sent if now - each[0] < self._interval]
        if recent and (recent[-1][1] == told.state or len(recent) >= _MOST_EQUAL):
            return True
        told.sent[event.identity] = [*recent, (now, told.state)]
        told.sent.move_to_end(event.identity)
        while len(told.sent) > _MOST_EVENTS:
            told.sent.popitem(last=False)
        return False

    def forget(self, event: Event) -> None:
        """Forget an event that could not be stored."""
        told = self._objects.get((str(event.involved_object), event.involved_object.uid))
        if told is not None and (sent := told.sent.get(event.identity)):
            sent.pop()
