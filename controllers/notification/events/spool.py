"""Deliveries on disk until they are sent, so that no restart loses one.

SQLite with a write-ahead log: committed rows survive the end of the process at any moment. A
delivery is removed after the service has accepted it, so it is sent at least once, and sometimes
twice. Concurrent writes are committed together.

The size is limited. Above ``MOST`` deliveries of one Provider, those are dropped whose object has a
newer one, so that the newest state of each object is sent. If that is not enough, the oldest are
dropped, from ``MOST_OBJECTS`` deliveries or ``MOST_BYTES`` on. There is a limit for all Providers
together: above it, deliveries of the largest namespace are dropped. If the file still grows too
large, new deliveries are refused.
"""

import asyncio
import contextlib
import fcntl
import sqlite3
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

from controllers.notification.events.sums import ROW, Sums
from toolkit import telemetry
from toolkit.errors import TransientError
from toolkit.objects import ObjectKey

_MOST_REPLICAS: Final = 16
MOST: Final = 1000
"""Deliveries that wait for one Provider, but for the newest of each object."""
MOST_OBJECTS: Final = 10_000
"""Deliveries that wait for one Provider in all."""
MOST_BYTES: Final = 16 << 20
"""Bytes of the notices that wait for one Provider."""
_ROOM: Final = 100
"""Deliveries that go at once, so that room is looked for once in so many."""
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 33554432;
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    namespace TEXT NOT NULL,
    provider TEXT NOT NULL,
    object TEXT NOT NULL,
    since REAL NOT NULL,
    notice BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_provider ON deliveries (namespace, provider, id);
CREATE INDEX IF NOT EXISTS by_object ON deliveries (namespace, provider, object, id);
"""
_OVERTAKEN: Final = """
SELECT id, length(notice) FROM deliveries AS old WHERE namespace = ? AND provider = ? AND EXISTS (
    SELECT 1 FROM deliveries AS new WHERE new.namespace = old.namespace
    AND new.provider = old.provider AND new.object = old.object AND new.id > old.id)
ORDER BY id LIMIT ?
"""
_OLDEST: Final = """
SELECT id, length(notice) FROM deliveries WHERE namespace = ? AND provider = ?
ORDER BY id LIMIT ?
"""

_COUNT: Final = """
SELECT namespace, provider, count(*), sum(length(notice)) FROM deliveries
GROUP BY namespace, provider
"""
_NEWEST: Final = """
SELECT id, key, object, since, notice FROM deliveries
WHERE namespace = ? AND provider = ? ORDER BY id DESC
"""
_FILE: Final = 1.5
"""The largest size of the file, as a multiple of the limit: pages are never completely full."""
_REMEMBERED: Final = 20_000
"""Objects of Providers whose newest event is remembered."""
_AT_ONCE_BYTES: Final = 1 << 20
"""Bytes of the notices that are read for one Provider at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notice for a Provider; ``notice`` is JSON, ``since`` when it came (Unix time)."""

    provider: ObjectKey
    object: str
    since: float
    notice: bytes
    key: str = ""
    id: int = 0


class Spool:
    """The deliveries; ``open`` before use. ``limit`` is in bytes, of all rows."""

    def __init__(self, directory: Path, *, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._held: IO[str] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._database: sqlite3.Connection | None = None
        self._sums = Sums()
        self._adding: list[tuple[Sequence[Delivery], asyncio.Future[None]]] = []
        self._since: OrderedDict[tuple[ObjectKey, str], float] = OrderedDict()

    async def open(self) -> None:
        """Open the file, or make it.

        Raises:
            TransientError: it cannot be used.
        """
        await self._run(self._open)

    async def close(self) -> None:
        """Close the file."""
        await self._run(self._close)
        self._thread.shutdown()

    def providers(self) -> list[ObjectKey]:
        """Return the Providers that deliveries wait for."""
        return [key for key, count in self._sums.waiting.items() if count > 0]

    def waiting(self, provider: ObjectKey) -> int:
        """Return the number of deliveries for a Provider."""
        return self._sums.waiting[provider]

    async def add(self, deliveries: Sequence[Delivery]) -> None:
        """Keep deliveries; return when they are on disk.

        Raises:
            TransientError: the disk is full, or cannot be written.
        """
        for each in deliveries:
            self._note(each)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._adding.append((deliveries, done))
        if len(self._adding) == 1:
            # after those that others add in this turn of the loop
            await asyncio.sleep(0)
            await self._commit()
        await done

    async def next(self, provider: ObjectKey, limit: int) -> list[Delivery]:
        """Return the oldest deliveries of a Provider, fewer where they are large."""
        return await self._run(lambda: self._next(provider, limit))

    async def newest(self, provider: ObjectKey, size: int) -> list[Delivery]:
        """Return the newest deliveries of a Provider in their order, of ``size`` bytes in all."""
        return await self._run(lambda: self._newest(provider, size))

    def overtaken(self, delivery: Delivery) -> bool:
        """Tell whether a newer event of the object was added; old objects are forgotten."""
        return self._since.get((delivery.provider, delivery.object), 0.0) > delivery.since

    def _note(self, delivery: Delivery) -> None:
        about = (delivery.provider, delivery.object)
        self._since[about] = max(delivery.since, self._since.get(about, 0.0))
        self._since.move_to_end(about)
        while len(self._since) > _REMEMBERED:
            self._since.popitem(last=False)

    async def remove(self, provider: ObjectKey, ids: Sequence[int]) -> None:
        """Forget deliveries that were made, or never will be."""
        await self._run(lambda: self._remove(provider, ids))

    async def clear(self, provider: ObjectKey) -> int:
        """Delete all deliveries of a Provider; return their number."""
        return await self._run(lambda: self._clear(provider))

    async def _commit(self) -> None:
        adding, self._adding = self._adding, []
        try:
            await self._run(lambda: self._insert(each for found, _ in adding for each in found))
        except TransientError as exc:
            for _, done in adding:
                if not done.done():
                    done.set_exception(exc)
        else:
            for _, done in adding:
                if not done.done():
                    done.set_result(None)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as exc:
            raise TransientError(
                f"the spool cannot be used: {exc}: free space on its disk"
            ) from exc

    @property
    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            raise RuntimeError("the spool is not open")
        return self._database

    def _open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = self._lock()
        database = sqlite3.connect(
            self._directory / f"{name}.db", isolation_level=None, check_same_thread=False
        )
        database.executescript(_SCHEMA)
        (page,) = database.execute("PRAGMA page_size").fetchone()
        database.execute(f"PRAGMA max_page_count = {int(self._limit * _FILE) // page}")
        self._database = database
        for namespace, provider, count, size in database.execute(_COUNT):
            self._sums.add(ObjectKey(namespace, provider), count, size)

    def _lock(self) -> str:
        """Take the first file that no other process has: replicas may share a directory."""
        for number in range(_MOST_REPLICAS):
            lock = (self._directory / f"{number}.lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self._held = lock
            return str(number)
        raise OSError("every file of the spool is in use")

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
        if self._held is not None:
            self._held.close()

    def _insert(self, deliveries: Iterable[Delivery]) -> None:
        database = self._opened
        sums = self._sums.copy()
        with _transaction(database):
            for each in deliveries:
                self._make_room(each, sums)
                database.execute(
                    "INSERT INTO deliveries (key, namespace, provider, object, since, notice)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        each.key or uuid.uuid4().hex,
                        *_pair(each.provider),
                        each.object,
                        each.since,
                        each.notice,
                    ),
                )
                sums.add(each.provider, 1, len(each.notice))
        self._sums = sums

    def _make_room(self, delivery: Delivery, sums: "Sums") -> None:
        provider = delivery.provider
        excess = sums.waiting[provider] - MOST
        # The more there are, the longer that takes, and the less often it is done.
        every = _ROOM * (1 + excess // MOST)
        if excess >= 0 and excess % every == 0:
            self._drop(_OVERTAKEN, provider, excess + every, sums)
        while (
            sums.waiting[provider] >= MOST_OBJECTS
            or sums.size[provider] + len(delivery.notice) > MOST_BYTES
        ):
            if self._drop(_OVERTAKEN, provider, _ROOM, sums):
                continue
            if not self._drop(_OLDEST, provider, _ROOM, sums):
                return
        while sums.total + len(delivery.notice) + ROW > self._limit and sums.total:
            largest = sums.largest()
            if not self._drop(_OVERTAKEN, largest, _ROOM, sums):
                self._drop(_OLDEST, largest, _ROOM, sums)

    def _drop(self, choice: str, provider: ObjectKey, most: int, sums: "Sums") -> int:
        """Drop some of a Provider's deliveries; return their number."""
        found = self._opened.execute(choice, (*_pair(provider), most)).fetchall()
        for number, size in found:
            self._opened.execute("DELETE FROM deliveries WHERE id = ?", (number,))
            sums.add(provider, -1, -size)
        telemetry.EVENTS_DROPPED.labels("provider").inc(len(found))
        return len(found)

    def _next(self, provider: ObjectKey, limit: int) -> list[Delivery]:
        rows = self._opened.execute(
            "SELECT id, key, object, since, notice FROM deliveries"
            " WHERE namespace = ? AND provider = ? ORDER BY id LIMIT ?",
            (*_pair(provider), limit),
        )
        return _read(rows, provider, _AT_ONCE_BYTES)

    def _newest(self, provider: ObjectKey, size: int) -> list[Delivery]:
        rows = self._opened.execute(_NEWEST, _pair(provider))
        return _read(rows, provider, size)[::-1]

    def _remove(self, provider: ObjectKey, ids: Sequence[int]) -> None:
        sums = self._sums.copy()
        with _transaction(self._opened):
            for each in ids:
                gone = self._opened.execute(
                    "DELETE FROM deliveries WHERE id = ? RETURNING length(notice)", (each,)
                )
                for (size,) in gone.fetchall():
                    sums.add(provider, -1, -size)
        self._sums = sums

    def _clear(self, provider: ObjectKey) -> int:
        gone = self._opened.execute(
            "DELETE FROM deliveries WHERE namespace = ? AND provider = ?", _pair(provider)
        )
        self._sums.forget(provider)
        return gone.rowcount


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end of the block, or undo all of it."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _pair(provider: ObjectKey) -> tuple[str, str]:
    return provider.namespace, provider.name


def _read(rows: sqlite3.Cursor, provider: ObjectKey, most: int) -> list[Delivery]:
    """Return deliveries until they have so many bytes."""
    found, size = [], 0
    for number, key, about, since, notice in rows:
        found.append(
            Delivery(
                provider=provider, id=number, key=key, object=about, since=since, notice=notice
            )
        )
        size += len(notice)
        if size > most:
            break
    rows.close()
    return found
