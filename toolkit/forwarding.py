"""Post events to a notification service: in order, with retries, and in batches if possible.

Flux's notification-controller takes one event per request. Penstock's states in the header
``AT_ONCE`` of its answers how many events it takes, as a JSON array, and answers with an array of
statuses. Batches matter: a new commit of a repository with a thousand users causes a thousand
events, and a request per event costs both processes more than its handling. So an event is sent at
once, and further events within a tenth of a second follow in one request. If the service no longer
sends the header, it gets single events again.

The service at the address may not be installed, because the default manifests name Flux's. While
its name does not resolve, events cost one lookup per minute and one line in the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from toolkit import telemetry

logger = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE: Final = "Penstock-Events-At-Once"
"""Header of an answer: how many events the service takes in one request."""
MOST: Final = 64
"""Events of one request."""
_MOST_BYTES: Final = 64 << 10
"""Limit of a request with several events: the size that the service reads without queuing."""
_MOST_ANSWER: Final = 4096
_GATHERING: Final = 0.1
"""Seconds between requests, where events may be sent together."""
_SECONDS: Final = 5.0
_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 15.0
_SECONDS_IN_ALL: Final = 1800.0
"""How long an event is retried: longer than a restart of a notification controller takes."""
_ABSENT_SECONDS: Final = 60.0
_DUPLICATE: Final = 429
_FINAL: Final = frozenset({400, 413, 422})
"""Answers that another attempt does not change: it would only keep the events behind it."""
_JSON: Final = {"Content-Type": "application/json"}


class Forwarder(Generic[T]):
    """Posts to one service what ``encode`` makes JSON of; open it before ``send``."""

    def __init__(self, address: str, encode: Callable[[T], bytes]) -> None:
        self._address = address
        self._encode = encode
        self._session: aiohttp.ClientSession | None = None
        self._absence: float | None = None
        self._at_once = 1

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep connections until the block ends."""
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as self._session:
            yield

    def pause(self) -> float:
        """Return the seconds that should pass until the next ``send``."""
        return _GATHERING if self._at_once > 1 else 0.0

    async def send(self, waiting: list[T]) -> None:
        """Post all in their order, and take those out of the list that are done with."""
        while waiting:
            batch = self._batch(waiting)
            await self._deliver(batch)
            del waiting[: len(batch)]

    def _batch(self, waiting: Sequence[T]) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        for item in waiting[: self._at_once]:
            body = self._encode(item)
            size += len(body) + 1
            if batch and size > _MOST_BYTES:
                break
            batch.append(body)
        return batch

    async def _deliver(self, bodies: list[bytes]) -> None:
        """Post until all events are taken, or further attempts make no sense."""
        delay, until = _DELAY, _now() + _SECONDS_IN_ALL
        while self._absence is None or _now() >= self._absence:
            problem: Exception
            try:
                await self._attempt(bodies)
            except _RefusedError as exc:
                bodies, problem = exc.left, exc
            except (aiohttp.ClientError, TimeoutError) as exc:
                problem = exc
            else:
                self._absence = None
                return
            nobody = isinstance(problem, aiohttp.ClientConnectorDNSError)
            if nobody or _now() + delay > until:
                self._lost(problem, len(bodies))
                return
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _attempt(self, bodies: list[bytes]) -> None:
        """Post once.

        Raises:
            _RefusedError: not all were taken.
        """
        if len(bodies) > 1:
            status, answer = await self._post(b"[" + b",".join(bodies) + b"]")
            if status == 207:
                self._require_taken(bodies, _statuses(answer))
                return
            if status >= 500:
                raise _RefusedError(bodies, status)
            # Another service, which takes single events, now has the address.
        for index, body in enumerate(bodies):
            status, _ = await self._post(body)
            if not self._done(status):
                raise _RefusedError(bodies[index:], status)

    def _require_taken(self, bodies: Sequence[bytes], statuses: Sequence[int]) -> None:
        """Require that no event needs another attempt; an event without a status needs one."""
        told = [*statuses, *[0] * len(bodies)]
        pairs = zip(bodies, told, strict=False)
        left = [(body, status) for body, status in pairs if not self._done(status)]
        if left:
            raise _RefusedError([body for body, _ in left], left[0][1])

    def _done(self, status: int) -> bool:
        """Tell whether an event needs no more attempts: it was taken or permanently refused."""
        if status in _FINAL:
            self._lost(_RefusedError([], status), 1)
        return 200 <= status < 300 or status == _DUPLICATE or status in _FINAL

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        assert self._session is not None  # noqa: S101 -- the caller has opened the session
        async with self._session.post(self._address, data=body, headers=_JSON) as response:
            self._at_once = _at_once(response.headers)
            length = response.content_length
            small = length is not None and length <= _MOST_ANSWER
            return response.status, await response.read() if small else b""

    def _lost(self, problem: Exception, count: int) -> None:
        """Count and log lost events; nothing is logged if the service does not exist."""
        told = {"address": urlsplit(self._address).netloc, "error": str(problem) or repr(problem)}
        if isinstance(problem, aiohttp.ClientConnectorDNSError):
            if self._absence is None:
                logger.info("no notification controller is installed", extra=told)
            self._absence = _now() + _ABSENT_SECONDS
            return
        telemetry.EVENTS_DROPPED.labels("notification").inc(count)
        logger.error("event not forwarded", extra=told)


class _RefusedError(Exception):
    """The service did not take these events."""

    def __init__(self, left: list[bytes], status: int) -> None:
        super().__init__(f"status {status}")
        self.left = left


def _statuses(answer: bytes) -> list[int]:
    try:
        return msgspec.json.decode(answer, type=list[int])
    except msgspec.MsgspecError:
        return []


def _at_once(headers: Mapping[str, str]) -> int:
    """Return the number of events that the service takes in one request."""
    told = headers.get(AT_ONCE, "")
    return min(MOST, max(1, int(told))) if told.isascii() and told.isdecimal() else 1


def _now() -> float:
    return asyncio.get_running_loop().time()
