"""A cache of one kind, kept current by a watch.

A WatchList request (KEP-3157) streams the existing objects and then the changes; a server without
it gets a paged list and a watch. Bookmarks keep the position fresh. After a 410 the informer lists
again, and reports objects that have vanished as deleted. Handlers see every change once, with the
value before and after.

The informer blocks the event loop only while it decodes one network chunk or one list page. It does
not retry handlers: they are synchronous, fast, and should not fail. If a handler fails because of
the content of an object, or an object cannot be decoded, this is logged, and the other objects are
still handled. The object may belong to a tenant, and would otherwise end the process at each start.
An object that cannot be decoded is kept as JSON, so that ``undecoded`` can report it.
Something may stand in for it: a policy must not lose its effect.
"""

import asyncio
import logging
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar

import msgspec

from crds import misfits
from toolkit import telemetry
from toolkit.errors import PenstockError
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.kube.undecoded import Undecoded
from toolkit.objects import GroupVersionKind, ObjectKey

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_PAGE: Final = 500
_FIRST_DELAY: Final = 0.25
_MAX_DELAY: Final = 30.0
_MAX_DELAY_UNREACHABLE: Final = 5.0
_IDLE: Final = 150.0
"""More than two bookmark periods (one minute): a stream this silent is dead."""
_INITIAL_IDLE: Final = 30.0
_STREAM_SECONDS: Final = (300, 600)
_BATCH: Final = 50
_INITIAL_END: Final = "k8s.io/initial-events-end"
_MAX_LINE: Final = 32 << 20
"""Bytes of one event; etcd takes no object of a tenth of that."""
_MALFORMED: Final = (
    *(msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    # an object may be nested deeper than the interpreter follows
    RecursionError,
)
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Change(Generic[T_co]):
    """One change of one object; ``old`` is None when added, ``new`` when deleted.

    ``gap`` tells that the change was found by a new list, so several writes may lie between the
    two.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: ObjectKey
    old: T_co | None
    new: T_co | None
    gap: bool = False


class Informer(Generic[T]):
    """Run it once; read it and subscribe to it from anywhere in the process.

    ``decode`` gets one object's JSON; where it came in a list, without ``apiVersion`` and ``kind``.
    ``stand_in`` returns what the cache holds instead of an object that does not decode. Without it,
    the cache keeps the last version that did, if there was one.
    """

    def __init__(  # noqa: PLR0913 - what to watch, and how
        self,
        client: Client,
        gvk: GroupVersionKind,
        *,
        decode: Callable[[bytes], T],
        stand_in: Callable[[Undecoded], T] | None = None,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> None:
        self.gvk = gvk
        self.last_error: errors.ApiError | None = None
        self._failed_at = 0.0
        self._client = client
        self._decode = decode
        self._stand_in = stand_in
        self._namespace = namespace
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._metadata_only = metadata_only
        self._items: dict[ObjectKey, T] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []
        self._undecoded: dict[ObjectKey, Undecoded] = {}
        self._told: list[Callable[[ObjectKey, Undecoded | None], None]] = []
        self._synced = asyncio.Event()
        self._attempted = asyncio.Event()
        self._position = ""
        self._watch_list = True
        self._delay = 0.0

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once."""
        return self._synced.is_set()

    @property
    def revision(self) -> int:
        """Return the resourceVersion up to which all events have arrived; 0 if it is unknown."""
        return int(self._position) if self._position.isdecimal() else 0

    @property
    def failing_for(self) -> float:
        """Return for how many seconds no attempt to hear of changes has gone well; 0 if one has."""
        return 0.0 if self.last_error is None else _now() - self._failed_at

    async def wait_synced(self) -> None:
        """Wait until the cache is complete; for ever while the kind is not served."""
        await self._synced.wait()

    async def wait_attempted(self) -> None:
        """Wait until the first attempt to fill the cache has ended, whether or not it failed."""
        await self._attempted.wait()

    def get(self, key: ObjectKey) -> T | None:
        """Return the object as last seen."""
        return self._items.get(key)

    def items(self) -> Mapping[ObjectKey, T]:
        """Return a live, read-only view of the cache."""
        return MappingProxyType(self._items)

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Call ``handler`` for every change from now on, and at once for all that is here."""
        self._handlers.append(handler)
        for key, item in self._items.items():
            self._tell(handler, Change("ADDED", key, None, item))

    def subscribe_undecoded(self, handler: Callable[[ObjectKey, Undecoded | None], None]) -> None:
        """Call ``handler`` for every object that does not decode, and with None once it does.

        ``get`` returns what stands in for it, or else the last version that did decode, if this
        process saw one.
        """
        self._told.append(handler)
        for key, found in self._undecoded.items():
            handler(key, found)

    async def run(self) -> None:
        """Follow the server until cancelled; every failure is followed by another attempt."""
        while True:
            try:
                await self._follow()
            except errors.GoneError:
                self._position = ""
            except errors.ApiError as exc:
                self._failed(exc)
            await asyncio.sleep(self._delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            self._delay = min(2 * max(self._delay, _FIRST_DELAY), self._max_delay())

    async def _follow(self) -> None:
        """Fill the cache if the position is lost, then watch until the stream ends."""
        resource = await self._client.mapper.resource(self.gvk)
        path = resource.path(namespace=self._namespace)
        if not self._position and not self._watch_list:
            await self._fill(path)
        initial = not self._position
        try:
            await self._watch(path)
        except errors.ApiError as exc:
            if initial and not self._position and _lacks_watch_list(exc):
                logger.info("no streaming lists here", extra={"kind": self.gvk.kind})
                self._watch_list = False
                self._delay = 0.0
                return
            raise

    async def _fill(self, path: str) -> None:
        """List page by page (servers without WatchList)."""
        telemetry.INFORMER_RELISTS.labels(self.gvk.kind).inc()
        query = self._query(limit=str(_PAGE))
        accept = self._accept("List")
        seen: set[ObjectKey] = set()
        while True:
            page = _page(await self._client.read(path, query=query, accept=accept))
            for index, raw in enumerate(page.items or ()):
                seen.add(self._put(raw)[0])
                if index % _BATCH == _BATCH - 1:
                    await asyncio.sleep(0)
            if not page.metadata.next_page:
                break
            query["continue"] = page.metadata.next_page
        self._filled(seen, page.metadata.resource_version)

    async def _watch(self, path: str) -> None:
        """Stream events into the cache; without a position, the existing objects come first."""
        query = self._query(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=str(random.randint(*_STREAM_SECONDS)),  # noqa: S311 - spread reconnects
        )
        if self._position:
            query["resourceVersion"] = self._position
        else:
            telemetry.INFORMER_RELISTS.labels(self.gvk.kind).inc()
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        initial: set[ObjectKey] | None = None if self._position else set()
        frames = _Frames()
        async with self._client.watch(path, query=query, accept=self._accept("")) as chunks:
            self.last_error = None
            while True:
                async with asyncio.timeout(_IDLE if self._position else _INITIAL_IDLE):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                # This is all that has arrived, at most 128 KiB: to wait for more is to give way.
                for line in frames.feed(chunk):
                    initial = self._read(line, initial)

    def _read(self, line: bytes, initial: set[ObjectKey] | None) -> set[ObjectKey] | None:
        """Handle one line; an invalid line is skipped, because it would be sent again forever."""
        try:
            event = _EVENT.decode(line)
        except _MALFORMED as exc:
            self._skipped("event skipped, it does not decode", exc)
            return initial
        return self._take(event, initial)

    def _take(self, event: "_Event", initial: set[ObjectKey] | None) -> set[ObjectKey] | None:
        """Handle one event; return the keys of the initial stream so far, None once it is over."""
        match event.type:
            case "ADDED" | "MODIFIED":
                key, version = self._put(event.object)
                if initial is not None:
                    initial.add(key)
            case "DELETED":
                meta = _meta(event.object)
                key, version = ObjectKey(meta.namespace, meta.name), meta.resource_version
                self._drop(key)
                if initial is not None:
                    initial.discard(key)
            case "BOOKMARK":
                meta = _meta(event.object)
                version = meta.resource_version
                if initial is not None and meta.annotations.get(_INITIAL_END) == "true":
                    self._filled(initial, version)
                    initial = None
            case _:
                raise _reported(event.object)
        if initial is None:
            self._position = version
            self._delay = 0.0
        return initial

    def _put(self, raw: msgspec.Raw) -> tuple[ObjectKey, str]:
        """Store one object unless it is unchanged; return its key and resourceVersion."""
        meta = _meta(raw)
        # Others keep the same texts: who refers to it, and who watches another kind.
        key = ObjectKey(sys.intern(meta.namespace), sys.intern(meta.name))
        if self._versions.get(key) == meta.resource_version:
            return key, meta.resource_version
        self._versions[key] = meta.resource_version
        try:
            item = self._decode(bytes(raw))
        except _MALFORMED as exc:
            self._skipped("object skipped, it does not decode", exc, object=str(key))
            found = Undecoded(bytes(raw), exc)
            self._lacks(key, found)
            if self._stand_in is None:
                return key, meta.resource_version
            item = self._stand_in(found)
        else:
            self._lacks(key, None)
        old = self._items.get(key)
        self._items[key] = item
        kind: Literal["ADDED", "MODIFIED"] = "ADDED" if old is None else "MODIFIED"
        self._notify(Change(kind, key, old, item, gap=not self._position))
        return key, meta.resource_version

    def _skipped(self, message: str, exc: Exception, **fields: str) -> None:
        telemetry.INFORMER_DECODE_ERRORS.labels(self.gvk.kind).inc()
        logger.error(message, extra={"kind": self.gvk.kind, "error": misfits.told(exc), **fields})

    def _lacks(self, key: ObjectKey, found: Undecoded | None) -> None:
        """Keep an object that does not decode, or forget it."""
        before = self._undecoded.pop(key, None)
        if found is not None:
            self._undecoded[key] = found
        if found is not None or before is not None:
            for handler in self._told:
                handler(key, found)

    def _drop(self, key: ObjectKey) -> None:
        self._versions.pop(key, None)
        self._lacks(key, None)
        old = self._items.pop(key, None)
        if old is not None:
            self._notify(Change("DELETED", key, old, None))

    def _filled(self, seen: set[ObjectKey], position: str) -> None:
        """End a complete listing: other objects were deleted during a gap in the watch."""
        for key in self._versions.keys() - seen:
            self._drop(key)
        self._position = position
        self._delay = 0.0
        self.last_error = None
        self._synced.set()
        self._attempted.set()

    def _notify(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._tell(handler, change)

    def _tell(self, handler: Callable[[Change[T]], None], change: Change[T]) -> None:
        try:
            handler(change)
        except (*_MALFORMED, PenstockError) as exc:
            telemetry.INFORMER_HANDLER_ERRORS.labels(self.gvk.kind).inc()
            # The message may quote the object, which may be a Secret, so only positions are logged.
            logger.error(  # noqa: TRY400 - see above
                "object not handled: this is a bug in Penstock",
                extra={
                    "kind": self.gvk.kind,
                    "object": str(change.key),
                    "type": type(exc).__name__,
                    "at": traceback.format_tb(exc.__traceback__)[-5:],
                },
            )

    def _failed(self, exc: errors.ApiError) -> None:
        if self.last_error is None:
            self._failed_at = _now()
        known = self.last_error is not None and str(self.last_error) == str(exc)
        self.last_error = exc
        self._attempted.set()
        level = logging.DEBUG if known else logging.ERROR
        logger.log(level, "watch failed", extra={"kind": self.gvk.kind, "error": str(exc)})
        if isinstance(exc, errors.NotFoundError):
            self._client.mapper.invalidate()

    def _max_delay(self) -> float:
        """Return the longest pause: a server that is down is tried oftener than a missing CRD."""
        down = isinstance(self.last_error, errors.UnreachableError | None)
        return _MAX_DELAY_UNREACHABLE if down else _MAX_DELAY

    def _query(self, **more: str) -> dict[str, str]:
        return self._selectors | more

    def _accept(self, suffix: Literal["", "List"]) -> str:
        return _METADATA_ONLY.format(suffix) if self._metadata_only else "application/json"


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Object(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None
    """Null where a list of admission configurations is empty, before Kubernetes 1.34."""


_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)
_LIST: Final = msgspec.json.Decoder(_List)


def _meta(raw: msgspec.Raw) -> _Meta:
    try:
        return _OBJECT.decode(raw).metadata
    except _MALFORMED as exc:
        raise errors.ApiError(f"the server sent something that is not an object: {exc}") from exc


def _page(body: bytes) -> _List:
    try:
        return _LIST.decode(body)
    except _MALFORMED as exc:
        raise errors.ApiError(f"the server sent something that is not a list: {exc}") from exc


def _reported(raw: msgspec.Raw) -> errors.ApiError:
    """Return the error in an ERROR event."""
    try:
        status = msgspec.json.decode(raw if len(memoryview(raw)) <= errors.LONGEST_STATUS else b"")
        return errors.from_status(int(status.get("code") or 500), status)
    except _MALFORMED as exc:
        return errors.ApiError(f"the server sent something that is not a status: {exc}")


class _Frames:
    """Splits a stream into lines; an unfinished one is joined once, at its end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes.

        Raises:
            ApiError: a line is too long.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._size = 0
        self._size += len(rest)
        if self._size > _MAX_LINE:
            raise errors.ApiError(f"the server sent an event of more than {_MAX_LINE >> 20} MiB")
        self._parts.append(rest)
        return [line for line in lines if line]


def _lacks_watch_list(exc: errors.ApiError) -> bool:
    """Tell whether an error means that the server has no WatchList.

    Such a server refuses the option (400 or 422), or ignores it and sends nothing (our deadline).
    """
    return exc.status in {400, 422} or isinstance(exc.__cause__, TimeoutError)
