"""A cache of one kind, kept current by a watch.

A WatchList request (KEP-3157) streams what exists and then what changes; a server without it gets
a paged list and a watch. Bookmarks keep the position fresh; a 410 starts anew, and what vanished
meanwhile is reported as deleted. Handlers see every change once, with the value before and after.

It blocks the event loop only as long as one network chunk or one list page takes to decode. It
does not retry handlers: they are synchronous, quick, and must not fail.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar

from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, ObjectKey

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_PAGE: Final = 500
_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 30.0
_MAX_DELAY_UNREACHABLE: Final = 5.0
_IDLE_SECONDS: Final = 150.0
"""More than two bookmark periods (one minute): a stream this silent is dead."""
_INITIAL_IDLE_SECONDS: Final = 30.0
_INITIAL_END: Final = "k8s.io/initial-events-end"
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Change(Generic[T_co]):
    """One change of one object; ``old`` is None when added, ``new`` when deleted."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: ObjectKey
    old: T_co | None
    new: T_co | None


class Informer(Generic[T]):
    """Run it once; read it and subscribe to it from anywhere in the process."""

    def __init__(  # noqa: PLR0913 - what to watch, and how
        self,
        client: Client,
        gvk: GroupVersionKind,
        *,
        decode: Callable[[bytes], T],
        namespace: str = "",
        label_selector: str = "",
        metadata_only: bool = False,
    ) -> None:
        self.gvk = gvk
        self.last_error: errors.ApiError | None = None
        self._client = client
        self._decode = decode
        self._namespace = namespace
        self._label_selector = label_selector
        self._metadata_only = metadata_only
        self._items: dict[ObjectKey, T] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []
        self._synced = asyncio.Event()
        self._position = ""
        self._watch_list = True
        self._delay = _FIRST_DELAY

    @property
    def synced(self) -> bool:
        """Tell whether the cache has been complete once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the cache is complete; for ever while the kind is not served."""
        await self._synced.wait()

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
            handler(Change("ADDED", key, None, item))

    async def run(self) -> None:
        """Follow the server until cancelled; every failure is followed by another attempt."""
        raise NotImplementedError
