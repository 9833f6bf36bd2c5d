"""A bucket in memory, behind the interface of the real ones, with knobs that break it.

Every write gives an object a new entity tag, as Azure and Google do.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from toolkit.remote.objectstore.objectstore import (
    Object,
    ObjectChangedError,
    ObjectNotFoundError,
    ObjectStoreError,
)


class KilledError(BaseException):
    """The process that was writing is gone."""


@dataclass
class MemoryBucket:
    """``calls`` holds (operation, key) in order; ``before`` is called with each first."""

    content: dict[str, tuple[Object, bytes]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _operation, _key: None
    now: float = 1_000_000.0
    tags: Iterable[int] = field(default_factory=itertools.count)

    async def list(self, prefix: str = "") -> AsyncIterator[Object]:
        self._ask("list", prefix)
        for key in sorted(self.content):
            if key.startswith(prefix):
                yield self.content[key][0]

    async def head(self, key: str) -> Object:
        self._ask("head", key)
        return self._get(key)[0]

    async def read(self, key: str, into: Path, *, limit: int, expect: Object | None = None) -> int:
        self._ask("read", key)
        found, data = self._get(key)
        if expect and found.etag != expect.etag:
            raise ObjectChangedError(f"'{key}' is another one")
        if len(data) > limit:
            raise ObjectStoreError(f"'{key}' is larger than {limit} bytes")
        into.write_bytes(data)  # noqa: ASYNC240  # some bytes
        return len(data)

    async def write(self, key: str, path: Path) -> Object:
        self._ask("write", key)
        return self.put(key, path.read_bytes())  # noqa: ASYNC240  # some bytes

    async def write_bytes(self, key: str, data: bytes) -> Object:
        self._ask("write", key)
        return self.put(key, data)

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._ask("delete", key)
            self.content.pop(key, None)

    def put(self, key: str, data: bytes) -> Object:
        """Write an object behind everybody's back."""
        found = Object(
            key=key,
            etag=f"tag-{next(iter(self.tags))}",
            size=len(data),
            modified=datetime.fromtimestamp(self.now, UTC),
        )
        self.content[key] = (found, data)
        return found

    def rot(self, key: str, data: bytes) -> None:
        """Change what an object holds, as a failing disk would."""
        self.content[key] = (self.content[key][0], data)

    def age(self, key: str, seconds: float) -> None:
        """Make an object older."""
        found, data = self.content[key]
        moment = datetime.fromtimestamp(self.now - seconds, UTC)
        self.content[key] = (replace(found, modified=moment), data)

    def fail(self) -> None:
        """Answer nobody any more."""

        def refuse(_operation: str, key: str) -> None:
            raise ObjectStoreError(f"cannot look at the object '{key}' of bucket 'b': refused")

        self.before = refuse

    def operations(self) -> Sequence[str]:
        """Return what was asked since the last time."""
        asked = [operation for operation, _ in self.calls]
        self.calls.clear()
        return asked

    def _ask(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.before(operation, key)

    def _get(self, key: str) -> tuple[Object, bytes]:
        try:
            return self.content[key]
        except KeyError:
            raise ObjectNotFoundError(f"there is no '{key}'", status=404) from None
