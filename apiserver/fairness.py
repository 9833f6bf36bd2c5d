"""Limit the requests in progress, fairly between users; too many get 429.

A flow is a user, or all service accounts of a namespace, because a user who may create one may
create a thousand.

kube-apiserver releases its own seat before it forwards a request (k/k#105409), so the load must be
limited here. A row has the number of requests of a kind that run at once. A flow gets at most three
quarters of them, and waiting requests start flow by flow (``toolkit.turns``). Watches do not wait,
because they last long; their number is limited, in total and per flow.

A watch whose client does not read holds the bytes written to it, about the same for every watch
(``apiserver.watching``). If there are many, they are closed sooner.

Administrators and the aggregator (``system:masters``) never wait for discovery and schemas, because
the whole cluster waits for them.
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
"""Limits of running and of waiting requests."""
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
    """How long the clients of one resource may read nothing."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._all = 0

    @contextmanager
    def writing(self, flow: str) -> Iterator[float]:
        """Count a client to which data is written; yield the seconds in which it must read."""
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
    """Return the flow of a user."""
    account, _, rest = user.name.partition(_ACCOUNT)
    return f"{_ACCOUNT}{rest.partition(':')[0]}" if not account and rest else user.name


def too_many_requests(
    message: str = "too many requests, please try again later", *, retry_after: int = _RETRY
) -> StatusError:
    """Return the error that asks the client to come back later."""
    return StatusError(429, "TooManyRequests", message, Details(retry_after=retry_after))
