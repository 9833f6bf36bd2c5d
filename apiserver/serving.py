"""Answer get, list and watch of one resource from its view.

Nothing here waits for another system. If the view is incomplete, or its sources are disconnected
for long, a read is refused (503). A read of a newer version than the view has waits a moment for it
(504). Large lists are assembled in slices, so that other requests proceed.
"""

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web

from apiserver import encoding, listing, negotiation, paging, position, resuming, shapes, status
from apiserver.call import Call
from apiserver.fairness import Patience, flow_of
from apiserver.item import Item
from apiserver.listing import Options
from apiserver.paging import Page
from apiserver.resource import Resource
from apiserver.status import GROUP, StatusError
from apiserver.view import Snapshot
from apiserver.watching import Start, Watch, error_line
from toolkit.objects import Json, ObjectKey

_PATIENCE: Final = 3.0
"""Seconds to wait for a version of another replica (``watch_cache.go`` blockTimeout)."""
_STEP: Final = 0.05
_SLICE: Final = 250
_GRACE: Final = 2.0
"""Seconds for the last lines of a watch that ends."""
_MIN_WATCH: Final = 1800.0
"""Seconds, and at random up to twice as many: ``--min-request-timeout``."""
_MAX_WATCH: Final = 10 * 365 * 86_400.0
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."


class Serving:
    """The read verbs of one resource."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._view = resource.view
        self._patience = Patience()
        self._open: set[Watch] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining = False

    @property
    def watches(self) -> int:
        """Return the number of open watches."""
        return len(self._open)

    async def get(self, call: Call) -> web.StreamResponse:
        """Answer with one object.

        Raises:
            StatusError: 404, 406, 503, 504.
        """
        accepted = negotiation.negotiate(call, forms=negotiation.TRANSFORMATIONS)
        shape = shapes.single(self.resource, accepted, call.query.get("includeObject", ""))
        self._check_ready()
        await self._reach(listing.version_of(call), call.namespace)
        item = self._view.get(ObjectKey(call.namespace, call.name))
        if item is None:
            raise status.not_found(self.resource.plural, call.name)
        return await encoding.send(call, accepted, b"".join(shape.parts(item)))

    async def list(self, call: Call) -> web.StreamResponse:
        """Answer with all objects that are selected, or a page of them.

        Raises:
            StatusError: 400, 406, 410, 422, 503, 504.
        """
        accepted = negotiation.negotiate(call, forms=negotiation.TRANSFORMATIONS)
        options = listing.parse(call, self.resource, watch=False)
        shape = shapes.several(self.resource, accepted, call.query.get("includeObject", ""))
        self._check_ready()
        snapshot = await self._moment(options, call.namespace)
        items, metadata = await _page(snapshot, options)
        parts: list[bytes] = []
        async for some in _sliced(items):
            parts.extend(map(shape.listed, some))
        before, after = shape.frame(metadata)
        return await encoding.send(call, accepted, b"".join((before, b",".join(parts), after)))

    async def watch(self, call: Call) -> web.StreamResponse:
        """Answer with events until the watch times out, the client disconnects or the process ends.

        An invalid version is reported in the stream, as upstream does (``newErrWatcher``).

        Raises:
            StatusError: 400, 406, 422, 503.
        """
        accepted = negotiation.negotiate_stream(call, forms=negotiation.TRANSFORMATIONS)
        options = listing.parse(call, self.resource, watch=True)
        shape = shapes.single(self.resource, accepted, call.query.get("includeObject", ""))
        self._check_ready()
        if self._draining:
            raise status.not_yet("this replica is about to end; another one has taken over")
        watch = Watch(
            self._view,
            shape,
            namespace=call.namespace,
            selector=options.selector,
            bookmarks=options.bookmarks,
            timeout=_duration(options.timeout),
        )
        async with self._opened(call, watch) as response:
            try:
                start = await self._start(options, call.namespace)
            except StatusError as exc:
                await response.write(error_line(exc))
            else:
                patience = functools.partial(self._patience.writing, flow_of(call.user))
                await watch.run(response, call.web, start, patience=patience)
        return response

    async def drain(self, *, over: float) -> None:
        """End all watches at random times within ``over`` seconds, to spread the reconnects.

        Watches with bookmarks get a last one. Returns when all have ended, or are too slow.
        """
        self._draining = True
        for watch in self._open:
            watch.end_within(random.uniform(0, over))  # noqa: S311 - spreads reconnects
        self._view.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(over + _GRACE):
                await self._empty.wait()

    @contextlib.asynccontextmanager
    async def _opened(self, call: Call, watch: Watch) -> AsyncIterator[web.StreamResponse]:
        response = web.StreamResponse(headers={"Content-Type": negotiation.JSON})
        await response.prepare(call.web)
        self._open.add(watch)
        self._empty.clear()
        try:
            yield response
        finally:
            self._open.discard(watch)
            if not self._open:
                self._empty.set()

    async def _start(self, options: Options, namespace: str) -> Start:
        """Return the start of a watch.

        Raises:
            StatusError: 410, 504.
        """
        await self._reach(options.version, namespace)
        end = self._view.history.end
        if options.initial:
            return Start(snapshot=self._view.snapshot(namespace), place=end, since=end)
        if not options.version:
            return Start(place=end, since=end)
        found = resuming.resume(self._view, options.version, namespace=namespace)
        return Start(events=found.events, place=found.place, since=found.since)

    async def _moment(self, options: Options, namespace: str) -> Snapshot:
        """Return the objects at the moment that a list is about, from its page on.

        Raises:
            StatusError: 410, 504.
        """
        page = options.page
        if page is not None:
            return await self._continued(page, namespace)
        await self._reach(options.version, namespace)
        exact = options.match == "Exact" or (not options.match and options.limit)
        if not (exact and options.version):
            return self._view.snapshot(namespace)
        found = self._past(options.version, namespace, ("", ""))
        if found is None:
            raise status.expired(_TOO_OLD)
        return found

    async def _continued(self, page: Page, namespace: str) -> Snapshot:
        if page.version is None:
            found: Snapshot | None = self._view.snapshot(namespace)
        else:
            await self._reach(page.version, namespace)
            found = self._past(page.version, namespace, (page.namespace, page.name))
        if found is None:
            raise paging.expired(page)
        rest = found.items[found.start(page.namespace, page.name) :]
        return Snapshot(position=found.position, items=rest)

    def _past(self, version: int, namespace: str, start: tuple[str, str]) -> Snapshot | None:
        """Return the objects at a version, ours or another replica's; None if it is unknown."""
        if self._view.clock.issued(version):
            found = self._view.past(version)
            return None if found is None else found.within(namespace)
        if resuming.unchanged(self._view, version, namespace, start):
            return Snapshot(position=version, items=self._view.snapshot(namespace).items)
        return None

    async def _reach(self, version: int, namespace: str) -> None:
        """Wait until this replica has reached a version, so that the client gets nothing older.

        Raises:
            StatusError: 410, there can be no newer version; 504, it was not reached in time.
        """
        loop, clock = asyncio.get_running_loop(), self._view.clock
        end = loop.time() + _PATIENCE
        while position.revision_of(version) > clock.revision:
            if loop.time() >= end:
                raise position.too_large(version, clock.latest)
            await asyncio.sleep(_STEP)
        if version and not clock.issued(version):
            self._view.surpass(version, namespace)

    def _check_ready(self) -> None:
        """Refuse reads while the view is incomplete or outdated.

        Raises:
            StatusError: 503, with the missing or outdated sources.
        """
        if not self._view.ready:
            missing = ", ".join(sorted(set(self._view.missing))) or "what it is made from"
            raise status.not_yet(
                f"{self.resource.plural}.{GROUP}: the cache is not complete yet: {missing}"
            )
        if behind := self._view.behind:
            raise status.behind(f"{self.resource.plural}.{GROUP}", behind)


async def _page(snapshot: Snapshot, options: Options) -> tuple[list[Item], Json]:
    """Return the objects of one page, and the metadata of its list."""
    chosen: list[Item] = []
    looked = 0
    async for some in _sliced(snapshot.items):
        for item in some:
            if options.limit and len(chosen) == options.limit:
                return chosen, _more(snapshot, looked, counted=options.selector.empty)
            looked += 1
            if options.selector.matches(item):
                chosen.append(item)
    return chosen, {"resourceVersion": str(snapshot.position)}


def _more(snapshot: Snapshot, looked: int, *, counted: bool) -> Json:
    """Return the metadata of a page that is not the last."""
    last = snapshot.items[looked - 1]
    metadata: Json = {
        "resourceVersion": str(snapshot.position),
        "continue": paging.encode(paging.after(*last.order, version=snapshot.position)),
    }
    if counted:
        metadata["remainingItemCount"] = len(snapshot.items) - looked
    return metadata


async def _sliced(items: Sequence[Item]) -> AsyncIterator[Sequence[Item]]:
    """Yield items some at a time, and let others work in between."""
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]
        await asyncio.sleep(0)


def _duration(asked: float) -> float:
    """Return the duration of a watch in seconds; random if the request has none."""
    if asked:
        return min(asked, _MAX_WATCH)
    return _MIN_WATCH * random.uniform(1, 2)  # noqa: S311 - spreads reconnects
