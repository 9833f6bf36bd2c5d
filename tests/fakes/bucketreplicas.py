"""Replicas of a store in one bucket, each on an empty disk of its own, and what readers get."""

import hashlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from crds.meta import Artifact
from toolkit.artifact.bucket import BucketStorage
from toolkit.artifact.cache import Cache
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.store import Owner, Store

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")
IGNORE = Ignore.from_rules(None)

Start = Callable[..., Awaitable[BucketStorage]]


@asynccontextmanager
async def replicas(directory: Path, *, idle_copies: int = 10) -> AsyncIterator[Start]:
    """Give a function that starts a replica with parts of a ``BucketStorage``."""
    disks = (directory / f"disk-{number}" for number in itertools.count(1))
    async with AsyncExitStack() as stack:

        async def start(*, idle_bytes: int = 1 << 30, **parts: Any) -> BucketStorage:
            disk = next(disks)
            cache = Cache(disk / "cache", idle_copies=idle_copies, idle_bytes=idle_bytes)
            await cache.open()
            stack.push_async_callback(cache.close)
            return BucketStorage(
                prefix="fleet/",
                scratch=disk / "scratch",
                cache=cache,
                advertised="artifacts.test",
                **parts,
            )

        yield start


async def stored(storage: Store, tree: Path, filename: str = "abc.tar.gz") -> Artifact:
    """Store a directory."""
    return await storage.store(
        OWNER, revision="main@sha1:abc", filename=filename, tree=tree, ignore=IGNORE
    )


async def served(storage: BucketStorage, path: str) -> bytes | None:
    """Return what a reader of the artifact server gets."""
    opened = await storage.open(path)
    if opened is None:
        return None
    with opened.file:
        content = opened.file.read()
    assert opened.intact
    assert opened.size == len(content)
    assert opened.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    return content
