"""One watch: the lines that its client gets, until it ends.

The client has a position in the shared history, not a queue, and an event is encoded once for all
clients that see it alike. Lines are written in small pieces, each taken before the next one is
made, so a client that reads nothing holds about 128 KiB, however large the objects are. Its
connection is closed after a time, and earlier if the history has dropped the next event to send. A
client whose position was dropped gets 410.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from aiohttp import web

from apiserver import position
from apiserver.item import Event, Item
from apiserver.selectors import Selector
from apiserver.shapes import Shape
from apiserver.status import StatusError
from apiserver.view import Snapshot, View
from toolkit.objects import Json

INITIAL_END: Final = "k8s.io/initial-events-end"
_BATCH: Final = 200
"""Objects that are read before other tasks run."""
_MANY: Final = 20
"""Events that are sent before other tasks run: for each, several states are read and decoded."""
_BYTES: Final = 16 << 10
"""Bytes per write, and the bytes in a transport above which we wait for the client.

The socket's transport below TLS has 64 KiB more.
"""
_INITIAL: Final = 300.0
"""Seconds in which a reader must have taken what there is."""
_BOOKMARKS: Final = 60.0
_BEFORE_END: Final = 2.0
"""Seconds between the last bookmark and the end (``cache_watcher.go``)."""
_GLANCE: Final = 1.0
"""Seconds between checks whether the data for a slow client is still in the log."""
_LOOK: Final = 15.0
"""Seconds after which a quiet watch looks whether its reader is still there."""

Patience = Callable[[], AbstractContextManager[float]]
"""Yields the seconds in which the client must read the data (``fairness.Patience``)."""

Kind = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of a watch: existing objects or missed events, and the position to continue at.

    ``since`` is the position from which on the log has all that this holds.
    """

    place: int
    since: int
    snapshot: Snapshot | None = None
    events: Iterable[Event] = ()


class GoneError(Exception):
    """The client has disconnected, or does not read."""


class Watch:
    """Tells one reader; ``timeout`` is in seconds."""

    def __init__(  # noqa: PLR0913 - the inputs of a watch
        self,
        view: View,
        shape: Shape,
        *,
        namespace: str,
        selector: Selector,
        bookmarks: bool,
        timeout: float,
    ) -> None:
        self._view = view
        self._shape = shape
        self._namespace = namespace
        self._selector = selector
        self._bookmarks = bookmarks
        self._first = True
        self._since = 0
        self._end = _now() + timeout
        self._next_bookmark = 0.0

    def end_within(self, seconds: float) -> None:
        """End earlier; the watch must be woken to notice."""
        self._end = min(self._end, _now() + seconds)

    async def run(
        self,
        response: web.StreamResponse,
        request: web.BaseRequest,
        start: Start,
        *,
        patience: Patience,
    ) -> None:
        """Write until the watch is over."""
        self._since = start.since
        out = _Writer(response, request, patience, kept=self._kept)
        with contextlib.suppress(GoneError):
            try:
                await self._begin(out, start)
                await self._follow(out, start.place)
            except StatusError as exc:
                await out.write([error_line(exc)])

    def _kept(self) -> bool:
        """Tell whether the data being sent is in memory anyway, in the log."""
        return self._view.history.holds(self._since)

    async def _begin(self, out: "_Writer", start: Start) -> None:
        """Send the existing objects, or the missed events.

        Raises:
            StatusError: 410, the client is so slow that only this watch holds the state.
        """
        self._plan_bookmark()
        if start.snapshot is None:
            await self._tell(out, start.events)
            return
        latest = _now() + _INITIAL
        items = start.snapshot.within(self._namespace).items
        for index in range(0, len(items), _BATCH):
            if _now() > latest:
                raise position.too_old(start.snapshot.position, self._view.clock.latest)
            chosen = filter(self._selector.matches, items[index : index + _BATCH])
            await out.write(part for item in chosen for part in self._parts(item))
            await asyncio.sleep(0)
        if self._bookmarks:
            await out.write([self._bookmark(start.snapshot.position, last=True)])

    async def _follow(self, out: "_Writer", place: int) -> None:
        """Send events.

        Raises:
            StatusError: 410, the client is too slow for the log.
        """
        history = self._view.history
        while True:
            events = history.some(place)
            if events is None:
                raise position.too_old(self._view.clock.latest, history.floor)
            self._since = place
            if events:
                place += len(events)
                await self._tell(out, events)
                continue
            now = _now()
            over = now >= self._end
            if (over and self._bookmarks) or now >= self._next_bookmark:
                self._plan_bookmark()
                await out.write([self._bookmark(self._view.position())])
                if not over:
                    continue
            if over:
                return
            out.look()
            until = min(self._end, self._next_bookmark, now + _LOOK)
            place = await self._view.changed(self._namespace, within=until - now)

    async def _tell(self, out: "_Writer", events: Iterable[Event]) -> None:
        rest = iter(events)
        while some := tuple(itertools.islice(rest, _MANY)):
            await out.write(part for event in some for part in self._lines(event))
            if len(some) == _MANY:
                # Neither a write that fits the buffer nor a selector yields to other tasks.
                await asyncio.sleep(0)

    def _lines(self, event: Event) -> Iterator[bytes]:
        """Yield the lines of an event for this client, if it selects the object."""
        if self._namespace in {"", event.key.namespace}:
            for kind, item in meaning(event, self._selector):
                if self._first:
                    yield from self._parts(item, kind)
                else:
                    yield self._shared(event, kind, item)

    def _shared(self, event: Event, kind: Kind, item: Item) -> bytes:
        """Return a line that is shared by all clients with the same form and change."""
        name = (kind, *self._shape.name)
        parts = self._shape.parts
        return event.line(name, lambda: line(kind, *parts(item, first=False)))

    def _parts(self, item: Item, kind: Kind = "ADDED") -> tuple[bytes, ...]:
        """Return the line of an object; the part of the object is shared, not a copy."""
        first, self._first = self._first, False
        return _parts(kind, *self._shape.parts(item, first=first))

    def _bookmark(self, version: int, *, last: bool = False) -> bytes:
        return line("BOOKMARK", self._shape.bookmark(mark(version, last=last)))

    def _plan_bookmark(self) -> None:
        """Set the time of the next bookmark: in a minute, or shortly before the end."""
        if not self._bookmarks:
            self._next_bookmark = float("inf")
            return
        now = _now()
        regular = now + _BOOKMARKS * random.uniform(0.9, 1.1)  # noqa: S311 - spreads the work
        final = self._end - _BEFORE_END
        self._next_bookmark = min(regular, final) if final > now else regular


def meaning(event: Event, selector: Selector) -> Iterator[tuple[Kind, Item]]:
    """Yield the changes of an event for a selector (``convertToWatchEvent``)."""
    old = next((old for old in event.olds if selector.matches(old)), None)
    if event.new is not None and selector.matches(event.new):
        yield "ADDED" if old is None else "MODIFIED", event.new
    elif old is not None:
        yield "DELETED", event.departed(old)


def mark(version: int, *, last: bool) -> Json:
    """Return a bookmark's metadata; ``last`` marks the end of initial events (KEP-3157)."""
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    return metadata | {"annotations": {INITIAL_END: "true"}} if last else metadata


def line(kind: Kind, *shown: bytes) -> bytes:
    """Return one line of a watch (``meta/v1.WatchEvent``)."""
    return b"".join(_parts(kind, *shown))


def _parts(kind: Kind, *shown: bytes) -> tuple[bytes, ...]:
    return b'{"type":"' + kind.encode() + b'","object":', *shown, b"}\n"


def error_line(error: StatusError) -> bytes:
    """Return the line that ends a watch that failed; a Status is never made a table."""
    return line("ERROR", msgspec.json.encode(error.document()))


class _Writer:
    """Writes to one client, which may disconnect or not read."""

    def __init__(
        self,
        response: web.StreamResponse,
        request: web.BaseRequest,
        patience: Patience,
        *,
        kept: Callable[[], bool],
    ) -> None:
        self._response = response
        self._request = request
        self._patience = patience
        self._kept = kept
        if request.transport is not None:
            # TLS has half a MiB otherwise
            request.transport.set_write_buffer_limits(high=_BYTES)

    async def write(self, parts: Iterable[bytes]) -> None:
        """Write parts of lines; only as many are made at a time as are written at once.

        Raises:
            GoneError: the client does not read them.
        """
        batch = bytearray()
        for each in parts:
            for start in range(0, len(each), _BYTES):
                batch += memoryview(each)[start : start + _BYTES]
                if len(batch) >= _BYTES:
                    await self._send(batch)
                    batch = bytearray()
        if batch:
            await self._send(batch)

    async def _send(self, data: bytearray) -> None:
        """Write less than the buffer holds; without waiting data this needs no timeout.

        Raises:
            GoneError: the client does not read it.
        """
        transport = self._request.transport
        if transport is None or transport.get_write_buffer_size() or len(data) > _BYTES // 2:
            await self._send_slowly(data)
            return
        try:
            await self._response.write(data)
        except ConnectionError as exc:
            raise GoneError from exc

    async def _send_slowly(self, data: bytearray) -> None:
        try:
            with self._patience() as seconds:
                async with _while(self._kept, seconds):
                    await self._response.write(data)
                    # The response itself waits once in 64 KiB only.
                    await self._request.writer.drain()
        except TimeoutError as exc:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise GoneError from exc
        except ConnectionError as exc:
            raise GoneError from exc

    def look(self) -> None:
        """Check that the client is connected.

        Raises:
            GoneError: it is not.
        """
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise GoneError


@contextlib.asynccontextmanager
async def _while(kept: Callable[[], bool], seconds: float) -> AsyncIterator[None]:
    """Limit the block to ``seconds``, or shortly after ``kept`` becomes false.

    Raises:
        TimeoutError: one of both happened.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    async with asyncio.timeout(seconds) as limit:

        def look() -> None:
            nonlocal timer
            if kept():
                timer = loop.call_later(_GLANCE, look)
            else:
                limit.reschedule(loop.time())

        timer = loop.call_later(_GLANCE, look)
        try:
            yield
        finally:
            timer.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
