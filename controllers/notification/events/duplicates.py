"""Events that were sent recently.

Flux drops an event that is equal to one within ``--rate-limit-interval``. That hides the second of
two failures with a success between them (notification-controller#445, #509). Here an event of
another severity resets the history of its object, so the first event of a new state is always sent.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from controllers.notification.events.event import Event

_MOST_OBJECTS: Final = 20_000
_MOST_EVENTS: Final = 64
"""Different events of one object that are remembered."""


class _Told:
    """The recent events of one object with the same severity class."""

    __slots__ = ("failing", "when")

    def __init__(self, *, failing: bool) -> None:
        self.failing = failing
        self.when: OrderedDict[str, float] = OrderedDict()


class Duplicates:
    """Remembers events for ``interval`` seconds."""

    def __init__(self, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._objects: OrderedDict[tuple[str, str], _Told] = OrderedDict()

    def seen(self, event: Event) -> bool:
        """Tell whether an equal event came since the object's last change of severity."""
        now, failing = self._clock(), event.severity == "error"
        key = (str(event.involved_object), event.involved_object.uid)
        told = self._objects.get(key)
        if told is None or told.failing != failing:
            told = self._objects[key] = _Told(failing=failing)
        self._objects.move_to_end(key)
        while len(self._objects) > _MOST_OBJECTS:
            self._objects.popitem(last=False)
        before = told.when.get(event.identity)
        if before is not None and now - before < self._interval:
            return True
        told.when[event.identity] = now
        told.when.move_to_end(event.identity)
        while len(told.when) > _MOST_EVENTS:
            told.when.popitem(last=False)
        return False

    def forget(self, event: Event) -> None:
        """Forget an event that could not be stored."""
        told = self._objects.get((str(event.involved_object), event.involved_object.uid))
        if told is not None:
            told.when.pop(event.identity, None)
