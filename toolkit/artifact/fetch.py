"""The consumer's side: download an artifact, check its digest, extract it once, share the copy.

However many Kustomizations build from a revision, it is fetched and unpacked once per process: the
first caller does the work, the others wait for it, and the copy stays while anybody uses it and as
long as there is room afterwards. A caller that gives up does not disturb the others.
"""

import asyncio
import hashlib
import mmap
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from crds.meta import Artifact
from toolkit.artifact import archive
from toolkit.errors import PenstockError, TransientError, WaitingError

_MARKS: Final = (b"ENC[AES256_GCM,",)
_CHUNK: Final = 1 << 20
_FIRST_DELAY: Final = 0.2
_MAX_DELAY: Final = 5.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)


class Extracted:
    """One unpacked artifact. Read-only for everybody."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encrypted: asyncio.Task[frozenset[str]] | None = None

    async def encrypted(self) -> frozenset[str]:
        """Return the files that hold SOPS ciphertext, relative to ``path``; scanned once."""
        if self._encrypted is None:
            self._encrypted = asyncio.create_task(asyncio.to_thread(_scan, self.path))
        return await asyncio.shield(self._encrypted)


class _Slot:
    """A copy in the making or in use."""

    def __init__(self, task: "asyncio.Task[Extracted]") -> None:
        self.task = task
        self.users = 0


class Fetcher:
    """All extracted artifacts of this process, below one cache directory of its own."""

    def __init__(
        self,
        cache: Path,
        *,
        host_override: str = "",
        retries: int = 9,
        spare: int = 32,
    ) -> None:
        """``host_override`` replaces host and port of artifact URLs; ``spare`` idle copies stay."""
        self._cache = cache
        self._host_override = host_override
        self._retries = retries
        self._spare = spare
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(shutil.rmtree, self._cache, ignore_errors=True)
        await asyncio.to_thread(self._cache.mkdir, parents=True, mode=0o700)
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [slot.task for slot in self._slots.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._slots.clear()
        if self._session:
            await self._session.close()
        await asyncio.to_thread(shutil.rmtree, self._cache, ignore_errors=True)

    @asynccontextmanager
    async def extracted(self, artifact: Artifact) -> AsyncIterator[Extracted]:
        """Give the unpacked artifact; the copy may go once the block is left.

        Raises:
            WaitingError: the artifact is gone from the server; a new one is on its way.
            TransientError: it could not be fetched, or its digest is wrong.
        """
        slot = self._slots.get(artifact.digest)
        if slot is None or _failed(slot.task):
            slot = _Slot(asyncio.create_task(self._obtain(artifact)))
            self._slots[artifact.digest] = slot
        self._slots.move_to_end(artifact.digest)
        slot.users += 1
        try:
            yield await asyncio.shield(slot.task)
        finally:
            slot.users -= 1
            await self._evict()

    async def _evict(self) -> None:
        idle = [
            digest for digest, slot in self._slots.items() if not slot.users and slot.task.done()
        ]
        for digest in idle[: max(0, len(idle) - self._spare)]:
            slot = self._slots.pop(digest)
            if not _failed(slot.task):
                path = slot.task.result().path
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def _obtain(self, artifact: Artifact) -> Extracted:
        directory = Path(tempfile.mkdtemp(dir=self._cache))
        tarball = directory / "artifact"
        try:
            await self._download(artifact, tarball)
            await asyncio.to_thread(archive.unpack, tarball, directory / "tree")
            await asyncio.to_thread(tarball.unlink)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))
            raise
        return Extracted(directory / "tree")

    async def _download(self, artifact: Artifact, into: Path) -> None:
        """Fetch with back-off; only what a retry may cure is retried."""
        delay = _FIRST_DELAY
        for attempt in range(self._retries + 1):
            try:
                return await self._attempt(artifact, into)
            except _RetryableError as error:
                if attempt == self._retries:
                    raise TransientError(str(error), reason="ArtifactFailed") from error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MAX_DELAY)
        return None

    async def _attempt(self, artifact: Artifact, into: Path) -> None:
        url = self._url(artifact.url)
        if self._session is None:
            raise RuntimeError("the fetcher is not open")
        hasher = hashlib.sha256()
        try:
            async with self._session.get(url) as response:
                if response.status == 404:
                    raise WaitingError(f"artifact {url} not found", reason="ArtifactFailed")
                if response.status != 200:
                    raise _RetryableError(f"fetching {url}: HTTP status {response.status}")
                with into.open("wb") as file:
                    async for chunk in response.content.iter_chunked(_CHUNK):
                        hasher.update(chunk)
                        await asyncio.to_thread(file.write, chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _RetryableError(f"fetching {url}: {str(error) or type(error).__name__}") from error
        digest = f"sha256:{hasher.hexdigest()}"
        if digest != artifact.digest:
            raise _RetryableError(
                f"artifact {url} has digest {digest} instead of {artifact.digest}"
            )

    def _url(self, url: str) -> str:
        if not self._host_override:
            return url
        return urlunsplit(urlsplit(url)._replace(netloc=self._host_override))


class _RetryableError(PenstockError):
    """One attempt failed in a way that another may not."""


def _failed(task: "asyncio.Task[Extracted]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _scan(tree: Path) -> frozenset[str]:
    """Return the files that contain ciphertext; blocks for one read of the tree."""
    return frozenset(
        str(path.relative_to(tree))
        for path in tree.rglob("*")
        if path.is_file() and not path.is_symlink() and _has_ciphertext(path)
    )


def _has_ciphertext(path: Path) -> bool:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(mark) >= 0 for mark in _MARKS)
