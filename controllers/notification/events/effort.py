"""How much CPU time one event may take for the Alerts of one namespace.

Tenants write the patterns and the metadata of Alerts, and may have any number of Alerts. All events
are matched in one thread, so Alerts that take long would hold up the events of everybody. An Alert
of usual size takes some microseconds.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 0.05


class Effort:
    """What one event has taken by now; ``clock`` is the CPU time of the thread."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._spent: defaultdict[str, float] = defaultdict(float)
        self.late: set[str] = set()
        """The namespaces of which not every Alert was considered."""

    def left(self, namespace: str) -> bool:
        """Tell whether the Alerts of a namespace may take more; note those that may not."""
        if self._spent[namespace] < SECONDS:
            return True
        self.late.add(namespace)
        return False

    @contextmanager
    def of(self, namespace: str) -> Iterator[float]:
        """Count the block, which must not await; yield the moment until which it may take."""
        began = self._clock()
        try:
            yield began + SECONDS - self._spent[namespace]
        finally:
            self._spent[namespace] += self._clock() - began
