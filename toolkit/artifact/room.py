"""Quotas: the bytes of each namespace in the artifact store, and their limit.

Sizes are those of the stored files, including older artifacts in their retention. They are measured
before the first write of a process, and again every ten minutes, because other replicas may have
written to a bucket. In between, writes are counted, so the cost of a write does not depend on the
stored amount. A restart loses nothing.

The artifacts of some owners count in the quota of another namespace, which asked for them
(``charge``). An empty file beside the artifacts names it (``layout.CHARGED``), so the measurement
needs no further request.

Temporary files, caches, and the digests and links beside the files are not counted.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

import prometheus_client as prom

from toolkit.artifact import layout
from toolkit.artifact.quota import QuotaError

STORED: Final = prom.Gauge(
    "penstock_artifact_stored_bytes", "Bytes that a namespace's artifacts take.", ("namespace",)
)
REFUSED: Final = prom.Counter(
    "penstock_artifact_quota_refusals",
    "Artifacts that were not stored because their namespace has too much.",
    ("namespace",),
)

Measure = Callable[[], Awaitable[Mapping[str, int]]]
"""Returns the size of every artifact in the store, by its path."""


class Room(Protocol):
    """The quota of all namespaces; safe to use from any thread."""

    async def ready(self, measure: Measure) -> None:
        """Measure the store if a measurement is due."""

    def taken(self, path: str, size: int) -> AbstractContextManager[None]:
        """Let ``size`` bytes be stored at a path in the block. Raises ``QuotaError``."""

    def freed(self, *paths: str) -> None:
        """Take note that these artifacts, or all below these directories, are gone."""

    def charged(self, owner: str) -> str:
        """Return the namespace that the owner with this path is charged to; empty if unknown."""

    def charge(self, owner: str, namespace: str) -> bool:
        """Charge an owner to a namespace from now on; tell whether it was another before."""


class Unlimited:
    """``Room`` without a quota; nothing is counted."""

    async def ready(self, measure: Measure) -> None:
        """Do nothing."""

    def taken(self, path: str, size: int) -> AbstractContextManager[None]:  # noqa: ARG002  # any
        """Let it be stored."""
        return contextlib.nullcontext()

    def freed(self, *paths: str) -> None:
        """Do nothing."""

    def charged(self, owner: str) -> str:  # noqa: ARG002  # any
        """Know nothing."""
        return ""

    def charge(self, owner: str, namespace: str) -> bool:  # noqa: ARG002  # any
        """Do nothing."""
        return False


UNLIMITED: Final = Unlimited()


class Limited:
    """``Room`` for ``limit`` bytes in each namespace."""

    def __init__(self, limit: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._now = now
        self._due = 0.0
        self._measuring = asyncio.Lock()
        self._lock = threading.Lock()
        self._files: dict[str, dict[str, int]] = {}
        self._used: dict[str, int] = {}
        self._charged: dict[str, str] = {}
        self._pending: dict[str, int] = {}
        self._meanwhile: list[tuple[str, int]] | None = None

    async def ready(self, measure: Measure) -> None:
        """Measure the store if a measurement is due; concurrent callers wait for it.

        Raises:
            TransientError: the store does not answer.
        """
        async with self._measuring:
            if self._now() < self._due:
                return
            with self._lock:
                self._meanwhile = list(self._pending.items())
            try:
                self._count(await measure())
            finally:
                with self._lock:
                    self._meanwhile = None
            self._due = self._now() + _AGAIN_SECONDS

    @contextlib.contextmanager
    def taken(self, path: str, size: int) -> Iterator[None]:
        """Reserve ``size`` bytes at a path for the block; if the block fails, they are released.

        An artifact that is not larger than the one that it replaces is always allowed, so that it
        can be repaired.

        Raises:
            QuotaError: the quota of the namespace would be exceeded.
        """
        with self._lock:
            before = self._size(path)
            self._require(path, size - before, size)
            self._put(path, size)
            self._pending[path] = size
        try:
            yield
        except BaseException:
            with self._lock:
                self._put(path, before)
            raise
        finally:
            with self._lock:
                del self._pending[path]

    def freed(self, *paths: str) -> None:
        """Take note that these artifacts, or all below these directories, are gone."""
        with self._lock:
            for path in paths:
                self._put(path, 0)

    def charged(self, owner: str) -> str:
        """Return the namespace that an owner is charged to; empty before the first measurement."""
        with self._lock:
            return self._account(owner) if self._due else ""

    def charge(self, owner: str, namespace: str) -> bool:
        """Charge an owner to a namespace from now on; tell whether it was another before.

        What it has already is moved, even if the quota is exceeded by that: it is only stored once.
        """
        with self._lock:
            before = self._account(owner)
            self._put(f"{owner}/{layout.CHARGED}{namespace}", 0)
            return before != namespace

    def _account(self, owner: str) -> str:
        return self._charged.get(owner) or owner.split("/")[1]

    def _require(self, path: str, growth: int, size: int) -> None:
        namespace = self._account(path.rpartition("/")[0])
        used = self._used.get(namespace, 0)
        if growth <= 0 or used + growth <= self._limit:
            return
        REFUSED.labels(namespace).inc()
        raise QuotaError(
            f"the artifacts of namespace '{namespace}' take {_mib(used)} of {_mib(self._limit)} "
            f"MiB, and '{path}' would have {_mib(size)}: delete sources or have them ignore more, "
            "wait for the retention of older artifacts to end, or ask for a higher "
            "--storage-namespace-quota",
            reason=REASON,
        )

    def _count(self, found: Mapping[str, int]) -> None:
        """Reset the counts to the measured sizes, plus the changes since the measurement began."""
        with self._lock:
            gone = self._used.keys()
            since, self._meanwhile = self._meanwhile or [], None
            self._files, self._used, self._charged = {}, {}, {}
            for path, size in (*_settled(found), *since):
                self._put(path, size)
            for namespace in gone - self._used.keys():
                _forget(namespace)

    def _size(self, path: str) -> int:
        owner, _, name = path.rpartition("/")
        return self._files.get(owner, {}).get(name, 0)

    def _put(self, path: str, size: int) -> None:
        """Note the size of a file, or who is charged; 0 forgets a file, or all of an owner."""
        if self._meanwhile is not None:
            self._meanwhile.append((path, size))
        owner, _, name = path.rpartition("/")
        if path.count("/") < _SLASHES:
            self._add(self._account(path), -sum(self._files.pop(path, {}).values()))
            self._charged.pop(path, None)
        elif name.startswith(layout.CHARGED):
            held = sum(self._files.get(owner, {}).values())
            self._add(self._account(owner), -held)
            self._charged[owner] = name.removeprefix(layout.CHARGED)
            self._add(self._account(owner), held)
        else:
            self._add(self._account(owner), size - self._size(path))
            files = self._files.setdefault(owner, {})
            files[name] = size
            if not size:
                del files[name]
            if not files:
                del self._files[owner]

    def _add(self, namespace: str, change: int) -> None:
        used = self._used.get(namespace, 0) + change
        if used:
            self._used[namespace] = used
            STORED.labels(namespace).set(used)
        elif self._used.pop(namespace, None) is not None:
            _forget(namespace)


REASON: Final = "StorageQuotaExceeded"
_AGAIN_SECONDS: Final = 600.0
_SLASHES: Final = 3
"""In the path of a file; the path of an owner has fewer."""


def of(limit: int) -> Room:
    """Return the room that ``--storage-namespace-quota`` leaves; 0 is not a limit."""
    return Limited(limit) if limit else UNLIMITED


def _settled(found: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield what was measured, without the files that name two namespaces for one owner.

    A process that was killed while it wrote another one leaves both. The owner's own namespace is
    charged until the object is reconciled again.
    """
    marks = (path.rpartition("/")[0] for path in found if _is_mark(path))
    once = {owner for owner, times in Counter(marks).items() if times == 1}
    for path, size in found.items():
        if not _is_mark(path) or path.rpartition("/")[0] in once:
            yield path, size


def _is_mark(path: str) -> bool:
    return path.rpartition("/")[2].startswith(layout.CHARGED)


def _forget(namespace: str) -> None:
    with contextlib.suppress(KeyError):
        STORED.remove(namespace)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}".removesuffix(".0")
