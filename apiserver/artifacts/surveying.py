"""Read the stored artifacts of each source, when an artifact changes or expires.

Older artifacts are in no status, so the artifact server is asked for its index, for a bounded
number of sources at a time, with turns per namespace. When the retention of an artifact ends, the
index is read again. All indexes are read again from time to time, because deletions by hand cause
no event. While a server does not respond, older artifacts are missing, not current ones, and the
server is asked again with growing delays.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from apiserver.owntoken import Token
from crds import misfits
from toolkit.artifact.index import Index
from toolkit.artifact.kinds import KINDS
from toolkit.artifact.store import Owner
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.workqueue import WorkQueue
from toolkit.objects import ObjectKey
from toolkit.remote.http import causes

logger = logging.getLogger(__name__)


class Catalog(Protocol):
    """The receiver of the indexes."""

    def address(self, owner: Owner) -> str:
        """Return the URL of a source's artifact; empty if there is none in our store."""
        ...

    def indexed(self, owner: Owner, index: Index) -> None:
        """Store the index."""


class Remembered:
    """A token that is requested once a minute, because a start reads thousands of indexes."""

    def __init__(self, fetch: Token, *, now: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now = now
        self._lock = asyncio.Lock()
        self._token = ""
        self._until = 0.0

    async def __call__(self) -> str:
        """Return the token. Raises ``PenstockError``."""
        async with self._lock:
            if self._now() >= self._until:
                self._token = await self._fetch()
                self._until = self._now() + _MINUTE
            return self._token


class Survey:
    """Keeps a catalog up with the store."""

    def __init__(self, *, session: Callable[[], aiohttp.ClientSession], token: Token) -> None:
        self._session = session
        self._token = token
        self._queue = WorkQueue("artifact-indexes", min_delay=1.0, max_delay=_LONGEST_DELAY)
        self._failing = False

    def look(self, owner: Owner) -> None:
        """Ask for a source's index soon."""
        self._queue.add(_key(owner), "changed")

    async def run(self, catalog: Catalog) -> None:
        """Ask, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work(catalog))

    async def _work(self, catalog: Catalog) -> None:
        while True:
            key = (await self._queue.get()).key
            try:
                await self._turn(catalog, key)
            finally:
                self._queue.done(key)

    async def _turn(self, catalog: Catalog, key: ObjectKey) -> None:
        owner = _owner(key)
        url = catalog.address(owner)
        if not url:
            self._queue.cancel(key)
            self._queue.forget(key)
            return
        try:
            index = await self._ask(owner, url)
        except PenstockError as error:
            self._failed(owner, error)
            self._queue.retry(key)
            return
        self._failing = False
        self._queue.forget(key)
        catalog.indexed(owner, index)
        self._queue.add_after(key, _pause(index, time.time()), "again")

    async def _ask(self, owner: Owner, url: str) -> Index:
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}/{owner.path}/"
        headers = {"Authorization": f"Bearer {await self._token()}"}
        try:
            async with self._session().get(
                address, headers=headers, allow_redirects=False, timeout=_TIMEOUT
            ) as response:
                if response.status != 200:
                    raise TransientError(f"{address} answers with HTTP status {response.status}")
                body = await response.content.read(_LONGEST + 1)
                while len(body) <= _LONGEST and (more := await response.content.read(_LONGEST)):
                    body += more
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise TransientError(f"cannot ask {address}: {causes.cause(exc)}") from exc
        if len(body) > _LONGEST:
            raise TransientError(f"{address} sent too much")
        try:
            return _INDEX.decode(body)
        except msgspec.MsgspecError as exc:
            raise TransientError(
                f"{address} sent something that is not an index: {misfits.told(exc)}"
            ) from exc

    def _failed(self, owner: Owner, error: PenstockError) -> None:
        """Say it once: if the server is away, it is for all."""
        level = logging.DEBUG if self._failing else logging.WARNING
        self._failing = True
        logger.log(
            level,
            "older artifacts are not known",
            extra={"object": f"{owner.namespace}/{owner.name}", "error": str(error)},
        )


_MINUTE: Final = 60.0
_WORKERS: Final = 4
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=5, sock_read=15)
_LONGEST: Final = 4 << 20
_LONGEST_DELAY: Final = 300.0
_USUALLY: Final = 3600.0
_SOONEST: Final = 15.0
_OFTENEST: Final = 300.0
_INDEX: Final = msgspec.json.Decoder(Index)
_NAMES: Final = {name: kind.kind for name, kind in KINDS.items()}


def _pause(index: Index, now: float) -> float:
    """Return the seconds until an index must be read again, without an event.

    An expired artifact stays until the next reconciliation of its source, so it does not cause
    constant requests.
    """
    ends = [entry.expires for entry in index.artifacts if entry.expires is not None]
    pause = _USUALLY
    if ends:
        pause = min(max(min(ends) - now, _OFTENEST if min(ends) <= now else _SOONEST), _USUALLY)
    return pause * random.uniform(0.9, 1.1)  # noqa: S311 - spread


def _key(owner: Owner) -> ObjectKey:
    return ObjectKey(owner.namespace, f"{owner.kind.lower()}/{owner.name}")


def _owner(key: ObjectKey) -> Owner:
    kind, _, name = key.name.partition("/")
    return Owner(kind=_NAMES[kind], namespace=key.namespace, name=name)
