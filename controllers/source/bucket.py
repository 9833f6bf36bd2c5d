"""Bucket: an artifact with the objects of a bucket; the key of an object is the path of its file.

If the listing has the stored revision, nothing is fetched. The revision describes exactly the
content of the artifact: if an object changes between the listing and its fetch, the reconciliation
fails, and the next one lists again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from controllers.source.beginnings import beginning
from controllers.source.bucketindex import Collector, Index, Sieve
from controllers.source.bucketplace import Found, Places
from controllers.source.source import SUCCEEDED, Fetched, Scratch, Tree, Upstream
from crds.kind import Kind
from crds.meta import Artifact
from crds.source_bucket import Bucket, BucketSpec
from toolkit.artifact import ignore, limits, threads
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.limits import Limits
from toolkit.errors import TransientError
from toolkit.remote.objectstore.errors import (
    BucketNotFoundError,
    CredentialsError,
    ObjectStoreError,
)
from toolkit.remote.objectstore.objectstore import Object, ObjectNotFoundError, ObjectStore

PARALLEL: Final = 100
"""Number of objects that one reconciliation fetches at a time (as in Flux)."""

_EVERYTHING: Final = Ignore.from_rules("!*")
"""Ignored objects are not fetched, so all fetched files are packed."""

_BATCH: Final = 1000

_APART: Final = (CredentialsError, BucketNotFoundError)
"""Errors that Flux reports without the name of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUpstream(Upstream):
    """The listed objects, and the place with the credentials to fetch them."""

    found: Found
    index: Index


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSource:
    """``Source`` for Bucket."""

    kind: Kind[Bucket]
    places: Places
    parallel: int = PARALLEL
    bounds: Limits = limits.DEFAULT

    async def resolve(self, obj: Bucket, scratch: Scratch) -> BucketUpstream:
        """List the bucket; the only object that is read is ``.sourceignore``."""
        found, name = await self.places.find(obj), obj.spec.bucket_name
        async with self._open(found, obj.spec, "list") as store:
            with beginning(
                f"failed to confirm existence of '{name}' bucket", ObjectStoreError, but=_APART
            ):
                sieve = await _rules(store, obj.spec, await scratch.directory())
            with beginning(
                f"indexation of objects from bucket '{name}' failed", ObjectStoreError, but=_APART
            ):
                index = await self._index(store, obj.spec, sieve)
        return BucketUpstream(
            revision=index.revision,
            observed={"observedIgnore": obj.spec.ignore or None},
            found=found,
            index=index,
        )

    async def fetch(self, obj: Bucket, upstream: BucketUpstream, into: Path) -> Fetched:
        """Fetch the listed objects, at most ``parallel`` at a time."""
        objects = upstream.index.objects
        directories = upstream.index.directories
        await asyncio.to_thread(_make, into, directories)
        bucket = obj.spec.bucket_name
        async with self._open(upstream.found, obj.spec, "fetch") as store:
            with beginning(f"fetch from bucket '{bucket}' failed", ObjectStoreError, but=_APART):
                await self._download(store, objects, into)
        return Fetched(
            filename=f"{upstream.revision.removeprefix('sha256:')}.tar.gz",
            summary=f"stored artifact with {len(objects)} fetched files from '{bucket}' bucket",
            content=Tree(ignore=_EVERYTHING),
        )

    def message(self, _obj: Bucket, artifact: Artifact) -> str:
        """Return the Ready message for a stored artifact."""
        return f"stored artifact: revision '{artifact.revision}'"

    def reason(self, artifact: Artifact) -> str:  # noqa: ARG002  # one for all
        """Return the reason of Ready for a stored artifact."""
        return SUCCEEDED

    @asynccontextmanager
    async def _open(
        self, found: Found, spec: BucketSpec, action: str
    ) -> AsyncIterator[ObjectStore]:
        """Open the bucket for at most ``spec.timeout``."""
        try:
            async with (
                ObjectStore(found.place, timeout=spec.timeout_seconds) as store,
                asyncio.timeout(spec.timeout_seconds),
            ):
                yield store
        except TimeoutError as exc:
            raise ObjectStoreError(
                f"cannot {action} bucket '{spec.bucket_name}' within spec.timeout of {spec.timeout}"
            ) from exc
        except ObjectStoreError as exc:
            if exc.status in (401, 403) and found.lent:
                self.places.cloud.drop(found.lent)
            raise

    async def _index(self, store: ObjectStore, spec: BucketSpec, sieve: Sieve) -> Index:
        collector = Collector(spec.bucket_name, bounds=self.bounds)
        async for batch in _batches(store.list(spec.prefix)):
            collector.count(len(batch))
            # Without rules a thread would cost more than it saves.
            taken = await threads.run(partial(sieve.take, batch)) if sieve else sieve.take(batch)
            collector.add(taken)
        return collector.index()

    async def _download(self, store: ObjectStore, objects: tuple[Object, ...], into: Path) -> None:
        pending = iter(objects)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.parallel, len(objects))):
                    group.create_task(_drain(store, pending, into))
        except* TransientError as failed:
            raise _first(failed) from failed


async def _drain(store: ObjectStore, pending: Iterator[Object], into: Path) -> None:
    """Fetch objects one after the other, until the shared iterator is empty."""
    for found in pending:
        await store.read(found.key, into / found.key, limit=found.size, expect=found)


async def _rules(store: ObjectStore, spec: BucketSpec, scratch: Path) -> Sieve:
    """Return the ignore rules of the spec and of ``.sourceignore`` at the root of the bucket."""
    path = scratch / "sourceignore"
    try:
        await store.read(ignore.FILE, path, limit=ignore.MAX_FILE)
    except ObjectNotFoundError:
        text = ""
    else:
        text = await asyncio.to_thread(path.read_text, "utf-8", "surrogateescape")
    return Sieve.of(text, spec.ignore)


async def _batches(objects: AsyncIterator[Object]) -> AsyncIterator[list[Object]]:
    batch: list[Object] = []
    async for found in objects:
        batch.append(found)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _make(into: Path, directories: list[str]) -> None:
    for directory in directories:
        (into / directory).mkdir(mode=0o700, exist_ok=True)


def _first(failed: BaseExceptionGroup[TransientError]) -> TransientError:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
