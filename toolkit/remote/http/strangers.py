"""Threads for slow operations of untrusted hosts: lookups of names, and handshakes with proxies.

The owner of a name decides how long its lookup takes, and a lookup cannot be cancelled: its thread
is busy until the resolver gives up, even if the caller has given up before. So a tenant with a name
server that does not answer could soon use every thread. Two rules leave some for others:

1. Names of one domain are a flow, and no flow may use all threads (``toolkit.turns.fair``).
2. Names that were found at once use other threads than names that were not, or are new.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from toolkit.remote import addresses
from toolkit.turns import fair

_T = TypeVar("_T")
_Work = tuple[Future[Any], Callable[[], Any]]

PLACES: Final = 64
_PROMPT_SECONDS: Final = 2.0
_REMEMBERED: Final = 4096
_SHORT: Final = 3
"""Characters of a label that is no domain of its own in front of a country, as in ``co.uk``."""


class FairThreads:
    """Runs work of flows in threads; work that waits is started flow by flow."""

    def __init__(self, places: int, *, name: str) -> None:
        self._places = places
        self._pool = ThreadPoolExecutor(places, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()

    def submit(self, flow: str, work: Callable[[], _T]) -> Future[_T]:
        """Run ``work`` when the flow may have a thread."""
        future: Future[_T] = Future()
        with self._lock:
            self._waiting.setdefault(flow, deque()).append((future, work))
            self._admit()
        return future

    def _admit(self) -> None:
        for flow in list(self._waiting):
            queue = self._waiting[flow]
            while queue and queue[0][0].cancelled():
                queue.popleft()
            if queue and fair(self._running[flow], self._running.total(), self._places):
                future, work = queue.popleft()
                if future.set_running_or_notify_cancel():
                    self._running[flow] += 1
                    self._pool.submit(self._run, flow, future, work)
                self._waiting.move_to_end(flow)
            if not queue:
                del self._waiting[flow]

    def _run(self, flow: str, future: Future[_T], work: Callable[[], _T]) -> None:
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller
            future.set_exception(exc)
        else:
            future.set_result(result)
        with self._lock:
            self._running[flow] -= 1
            if not self._running[flow]:
                del self._running[flow]
            self._admit()


class Strangers:
    """The threads, and which names were found at once."""

    def __init__(self, places: int = PLACES, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._prompt = FairThreads(places, name="lookups")
        self._new = FairThreads(places, name="strangers")
        self._proxies = FairThreads(places, name="proxies")
        self._found: OrderedDict[str, None] = OrderedDict()

    def look_up(self, host: str, work: Callable[[], _T]) -> Future[_T]:
        """Look up a name in a thread."""

        def timed() -> _T:
            began = self._clock()
            try:
                return work()
            finally:
                self._note(host, prompt=self._clock() - began < _PROMPT_SECONDS)

        threads = self._prompt if host in self._found else self._new
        return threads.submit(domain(host), timed)

    def shake_hands(self, proxy: str, work: Callable[[], _T]) -> Future[_T]:
        """Connect through a proxy in a thread."""
        return self._proxies.submit(domain(proxy), work)

    def _note(self, host: str, *, prompt: bool) -> None:
        self._found.pop(host, None)
        if prompt:
            self._found[host] = None
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)


def domain(host: str) -> str:
    """Return the part of a name that has one owner; all addresses are one flow.

    Public suffixes are only guessed: a wrong guess makes a flow larger or smaller.
    """
    if addresses.literal(host) is not None:
        return ""
    labels = host.lower().rstrip(".").split(".")
    country = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= _SHORT
    return ".".join(labels[-3:] if country else labels[-2:])
