"""How much is done at once, fairly between users; too many are told to come back later.

A flow is a user, or all service accounts of a namespace: anyone who may make one may make a
thousand.

kube-apiserver gives up its own seat before it passes a request on (k/k#105409), so the load is ours
to control. A row says how many requests of a kind run at once; of those a flow gets three quarters,
and those who wait are let in flow by flow (``toolkit.turns``). Watches do not wait: they stay for
long, so their number is bounded, all told and for each flow.

A reader of a watch that takes nothing holds what has been written to it, about as many bytes
whatever it watches (``apiserver.watching``). While many do, they are given up sooner.

Administrators and the aggregator (``system:masters``) never wait for discovery and schemas: the
whole cluster does, when they do not come.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Literal

from apiserver import metrics
from apiserver.auth.authorization import MASTERS
from apiserver.call import User
from apiserver.status import Details, StatusError
from toolkit.turns import BusyError, Turns

Kind = Literal["documents", "reads", "subresources", "streams"]

_PLACES: Final[tuple[tuple[Kind, int, int], ...]] = (
    # Made once: discovery, schemas.
    ("documents", 64, 512),
    # From memory: get and list; and a watch until it begins.
    ("reads", 64, 512),
    # Computed, or asked of others: tree, diff, plan ...
    ("subresources", 16, 128),
    # Bytes, for as long as the client takes to read them.
    ("streams", 256, 256),
)
"""How many run, and how many may wait."""
_WATCHES: Final = 4096
_WATCHES_OF_A_FLOW: Final = 1536
_SLOW: Final = 1024
"""Readers of one resource that take nothing: 128 MiB, at 128 KiB each. A flow gets half."""
_SLOW_OF_A_FLOW: Final = 512
_PATIENCE: Final = 60.0
"""Seconds a reader may take nothing, and while too many do."""
_HURRY: Final = 5.0
_ACCOUNT: Final = "system:serviceaccount:"
_RETRY: Final = 1


class Fairness:
    """The places of one process."""

    def __init__(self) -> None:
        self._turns = {
            kind: Turns(places=places, waiting=waiting) for kind, places, waiting in _PLACES
        }
        self._watches: Counter[str] = Counter()

    @asynccontextmanager
    async def place(self, kind: Kind, user: User) -> AsyncIterator[None]:
        """Hold a place, waiting for one if need be; the deadline is the caller's.

        Raises:
            StatusError: 429, too many wait already.
        """
        if kind == "documents" and MASTERS in user.groups:
            yield
            return
        async with turn(self._turns[kind], user):
            yield

    @contextmanager
    def watch(self, user: User) -> Iterator[None]:
        """Count a watch.

        Raises:
            StatusError: 429, there are too many.
        """
        flow = flow_of(user)
        if self._watches.total() >= _WATCHES or self._watches[flow] >= _WATCHES_OF_A_FLOW:
            raise too_many_requests()
        self._watches[flow] += 1
        metrics.WATCHES.inc()
        try:
            yield
        finally:
            metrics.WATCHES.dec()
            self._watches[flow] -= 1
            if not self._watches[flow]:
                del self._watches[flow]


class Patience:
    """How long the readers of one resource may take nothing."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._all = 0

    @contextmanager
    def writing(self, flow: str) -> Iterator[float]:
        """Count a reader who is written to; yield the seconds in which it must take it."""
        many = self._all >= _SLOW or self._waiting[flow] >= _SLOW_OF_A_FLOW
        self._waiting[flow] += 1
        self._all += 1
        try:
            yield _HURRY if many else _PATIENCE
        finally:
            self._all -= 1
            self._waiting[flow] -= 1
            if not self._waiting[flow]:
                del self._waiting[flow]


@asynccontextmanager
async def turn(turns: Turns, user: User) -> AsyncIterator[None]:
    """Hold one of the places for a user, waiting for one if need be.

    Raises:
        StatusError: 429, too many wait already.
    """
    try:
        async with turns.turn(flow_of(user)):
            yield
    except BusyError as exc:
        raise too_many_requests() from exc


def flow_of(user: User) -> str:
    """Return with whom a user shares."""
    account, _, rest = user.name.partition(_ACCOUNT)
    return f"{_ACCOUNT}{rest.partition(':')[0]}" if not account and rest else user.name


def too_many_requests(
    message: str = "too many requests, please try again later", *, retry_after: int = _RETRY
) -> StatusError:
    """Ask somebody to come back later."""
    return StatusError(429, "TooManyRequests", message, Details(retry_after=retry_after))
