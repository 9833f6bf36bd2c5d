"""Download an artifact, check its digest, extract it once per process, and share the copy.

A revision is fetched and unpacked once per process, for any number of Kustomizations. Nothing is
unpacked before the digest is checked. Digests are not secret, so a copy is found by its digest and
its owner: a user who states the digest of another tenant's artifact gets no access to it.

The writer of an ExternalArtifact chooses the URL of the request. So messages never contain parts of
the answer: no digest, size, status or banner. A status is logged.

After a cluster was moved to Penstock, a source still names the artifact of the controller that
stored it before. If that one does not answer, there is only one attempt: Penstock's source
controller stores a new artifact, which wakes the users of the source.
"""

import asyncio
import hashlib
import logging
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BufferedWriter
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from crds import EXTERNAL_ARTIFACT
from crds.meta import ORIGINS, Artifact
from toolkit import disk
from toolkit.artifact import archive, belonging, limits, threads
from toolkit.artifact.cache import CONTENT, Cache, Extracted
from toolkit.artifact.digest import ALGORITHMS
from toolkit.artifact.limits import Limits
from toolkit.artifact.store import Owner
from toolkit.errors import Told, TransientError, WaitingError
from toolkit.remote.http import causes
from toolkit.remote.http.reach import Reach, connector, literal_within

__all__ = ["Extracted", "Fetcher"]

REASON: Final = "ArtifactFailed"

logger = logging.getLogger(__name__)


class Fetcher:
    """All extracted artifacts of this process; open it with ``async with``.

    ``host_override`` replaces host and port of artifact URLs, for processes outside the cluster
    (Flux's ``SOURCE_CONTROLLER_LOCALHOST``). Failed downloads are retried with growing delays,
    starting at ``retry_delay`` seconds. Of idle copies the last used ``idle_copies`` stay, within
    ``idle_bytes`` together.
    """

    def __init__(  # noqa: PLR0913  # settings with defaults
        self,
        cache: Path,
        *,
        host_override: str | None = None,
        retries: int = 9,
        retry_delay: float = 0.25,
        idle_copies: int = 32,
        idle_bytes: int = 4 << 30,
        bounds: Limits = limits.DEFAULT,
    ) -> None:
        self._cache = Cache(cache, idle_copies=idle_copies, idle_bytes=idle_bytes)
        self._host_override = host_override
        self._retries = retries
        self._retry_delay = retry_delay
        self._bounds = bounds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        await self._cache.open()
        self._session = aiohttp.ClientSession(
            timeout=_TIMEOUT,
            connector=connector(Reach.NOT_METADATA),
            # The digest is of the raw bytes, so they must not be decompressed.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            read_bufsize=_CHUNK,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._cache.close()
        finally:
            if self._session is not None:
                await self._session.close()

    @asynccontextmanager
    async def extracted(
        self, artifact: Artifact, owner: Owner | None = None
    ) -> AsyncIterator[Extracted]:
        """Give the unpacked artifact of ``owner``; the copy may go once the block is left.

        Without an owner the author of the artifact's address is trusted.

        Raises:
            WaitingError: the artifact is gone from the server, or the source controller that stored
                it is; a new one is on its way.
            TransientError: it is another object's, could not be fetched or unpacked, or its digest
                is wrong.
        """
        digest = _require_digest(artifact)
        if owner is not None:
            belonging.require_own(artifact, owner)
        whose = owner.path if owner else artifact.url

        async def produce(directory: Path) -> int:
            return await self._produce(artifact, directory, _predecessor(artifact, owner))

        async with self._cache.use(f"{whose} {digest}", produce) as extracted:
            yield extracted

    async def _produce(
        self, artifact: Artifact, directory: Path, predecessor: WaitingError | None
    ) -> int:
        packed = directory / "artifact"
        try:
            await self._download(artifact, packed, predecessor)
            return await threads.run(
                lambda checkpoint: _extract(packed, directory, self._bounds, checkpoint)
            )
        except OSError as exc:
            raise _failed(artifact, f"cannot be kept: {disk.why(exc, directory)}") from exc

    async def _download(
        self, artifact: Artifact, into: Path, predecessor: WaitingError | None
    ) -> None:
        """Fetch with back-off; only what another attempt may cure is tried again.

        ``predecessor`` is what to raise in place of a failure that another attempt may cure.
        """
        delay = self._retry_delay
        for _ in range(self._retries):
            try:
                return await self._attempt(artifact, into)
            except _AgainError as exc:
                if predecessor is not None:
                    raise predecessor from exc
                # Jitter: all consumers of a source learn of an artifact in the same moment.
                await asyncio.sleep(delay * random.uniform(0.8, 1.2))  # noqa: S311  # no secret
            delay = min(delay * 2, _LONGEST_DELAY)
        return await self._attempt(artifact, into)

    async def _attempt(self, artifact: Artifact, into: Path) -> None:
        if self._session is None:
            raise RuntimeError("the fetcher is not open")
        url = self._url(artifact)
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                _require_content(response, artifact)
                with await asyncio.to_thread(into.open, "wb") as file:
                    await _receive(response.content, artifact, file)
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise _AgainError(f"cannot fetch {url}: {causes.cause(exc)}", reason=REASON) from exc

    def _url(self, artifact: Artifact) -> str:
        try:
            parts = urlsplit(artifact.url)
        except ValueError as exc:
            raise _failed(artifact, "has an address that is not a URL") from exc
        if parts.scheme not in ("http", "https"):
            raise _failed(artifact, "has a URL that is not HTTP")
        if not literal_within(parts.hostname or "", Reach.NOT_METADATA):
            raise _failed(artifact, "has the address of a metadata service")
        return urlunsplit(parts._replace(netloc=self._host_override or parts.netloc))


class _AgainError(TransientError):
    """One attempt failed in a way that another may not."""


_TIMEOUT: Final = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
_LONGEST_DELAY: Final = 10.0
_CHUNK: Final = 1 << 20
_DIGEST: Final = re.compile(rf"({'|'.join(ALGORITHMS)}):[0-9a-f]{{64,128}}")


def _predecessor(artifact: Artifact, owner: Owner | None) -> WaitingError | None:
    """Return the wait for a new artifact, if another source controller stored this one."""
    if owner is None or owner.kind == EXTERNAL_ARTIFACT.kind or ORIGINS in artifact.metadata:
        return None
    return WaitingError(
        f"the artifact of {owner.kind} '{owner.namespace}/{owner.name}' was stored by another "
        f"source controller, which does not answer at {artifact.url}: waiting until Penstock has "
        f"fetched the {owner.kind}; resume it if it is suspended",
        reason=REASON,
        told=Told(event=""),
    )


def _require_digest(artifact: Artifact) -> str:
    if not _DIGEST.fullmatch(artifact.digest):
        raise _failed(artifact, "has a digest that cannot be checked")
    return artifact.digest


def _require_content(response: aiohttp.ClientResponse, artifact: Artifact) -> None:
    """Require a successful answer; tell missing, temporary and permanent errors apart."""
    status = response.status
    if status != 200:
        logger.info("artifact not served", extra={"url": artifact.url, "status": status})
    if status == 404:
        raise WaitingError(
            "Source is not ready, artifact not found",
            reason=REASON,
            told=Told(delay=True, event=""),
        )
    if status >= 500 or status in (408, 425, 429):
        raise _AgainError(f"cannot fetch {artifact.url}: the server fails", reason=REASON)
    if status != 200:
        raise _failed(artifact, "cannot be fetched: the server refuses it")
    if (response.content_length or 0) > limits.PACKED:
        raise _failed(artifact, f"is larger than {limits.PACKED >> 20} MiB")


async def _receive(content: aiohttp.StreamReader, artifact: Artifact, file: BufferedWriter) -> None:
    """Write the body to ``file``, and require the digest of the source object."""
    hasher = hashlib.new(artifact.digest.partition(":")[0])
    size = 0

    def keep(block: bytes) -> None:
        hasher.update(block)
        file.write(block)

    pending = bytearray()
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > limits.PACKED:
            raise _failed(artifact, f"is larger than {limits.PACKED >> 20} MiB")
        pending += chunk
        if len(pending) >= _CHUNK:
            await asyncio.to_thread(keep, bytes(pending))
            pending.clear()
    await asyncio.to_thread(keep, bytes(pending))
    if hasher.hexdigest() != artifact.digest.partition(":")[2]:
        # Do not report the digest: the writer of an ExternalArtifact chooses the URL, and the
        # digest of a short answer discloses its content.
        raise _failed(artifact, f"does not have the digest {artifact.digest} that its object names")


def _extract(packed: Path, directory: Path, bounds: Limits, checkpoint: threads.Checkpoint) -> int:
    size = archive.unpack(packed, directory / CONTENT, bounds, checkpoint=checkpoint)
    packed.unlink()
    return size


def _failed(artifact: Artifact, how: str) -> TransientError:
    return TransientError(f"artifact {artifact.url} {how}", reason=REASON)
