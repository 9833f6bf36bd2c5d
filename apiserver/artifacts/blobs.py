"""The bytes of artifacts: fetched from the artifact server, required to have their digest.

An artifact whose files are read is fetched once, kept on the local disk by owner and digest, and
shared by all requests. Its size and the number of copies in use are bounded. Content that is only
passed on is streamed. No redirect is followed, nothing is unpacked.

The client decides how long it takes to read a response. So streams have slots of their own: slow
clients delay each other, but not requests that read files or lists. All connections together are a
fraction of those that the artifact server accepts.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import BufferedWriter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from apiserver import fairness, status
from apiserver.artifacts.held import Held
from apiserver.artifacts.hosts import Hosts
from apiserver.call import User
from toolkit.artifact import limits
from toolkit.artifact.cache import CONTENT, Cache
from toolkit.artifact.digest import ALGORITHMS
from toolkit.remote.http import causes
from toolkit.remote.http.reach import OutOfReachError, Reach, connector, literal_within
from toolkit.turns import Turns

CHUNK: Final = 256 << 10
LARGEST: Final = 256 << 20
"""Bytes of an artifact that is kept here to be looked into."""


class DamagedError(Exception):
    """The bytes are not those that have the digest."""


class Blobs:
    """Fetches from ``hosts``; open it with ``async with opened(...)``."""

    def __init__(self, hosts: Hosts, *, session: aiohttp.ClientSession, cache: Cache) -> None:
        self.session = session
        self._hosts = hosts
        self._cache = cache
        self._looking = Turns(places=_LOOKING, waiting=_WAITING)
        self._sending = Turns(places=_SENDING, waiting=_WAITING)
        self._passing = Turns(places=_PASSING, waiting=_WAITING_TO_PASS)

    @asynccontextmanager
    async def file(
        self, artifact: Held, user: User, *, to_send: bool = False
    ) -> AsyncIterator[Path]:
        """Yield an artifact as a local file that has its digest, for reading only.

        Users take turns; with ``to_send`` the file is held for as long as the client reads. A user
        who holds one gets no other file or stream meanwhile.

        Raises:
            StatusError: the artifact may not be fetched, does not exist or is damaged, or the
                server does not answer.
        """
        self._require(artifact)
        if artifact.size > LARGEST:
            raise _too_large(artifact, LARGEST)

        async def produce(directory: Path) -> int:
            size = 0
            with await asyncio.to_thread((directory / CONTENT).open, "xb") as file:
                async with self._fetched(artifact) as (_, chunks):
                    async for chunk in chunks:
                        size += len(chunk)
                        if size > LARGEST:
                            raise _too_large(artifact, LARGEST)
                        await asyncio.to_thread(_write, file, chunk)
            return size

        try:
            # By its owner too: a digest is not a secret, and must not open a neighbour's.
            use = self._cache.use(f"{artifact.owner.path} {artifact.digest}", produce)
            turns = self._sending if to_send else self._looking
            async with fairness.turn(turns, user), use as found:
                yield found.path
        except DamagedError as exc:
            raise _damaged(artifact) from exc
        except OSError as exc:
            why = exc.strerror or type(exc).__name__
            raise status.unavailable(f"cannot keep artifact '{artifact.name}': {why}") from exc

    @asynccontextmanager
    async def stream(
        self, artifact: Held, user: User
    ) -> AsyncIterator[tuple[int | None, AsyncIterator[bytes]]]:
        """Yield an artifact's size, if it is known, and its bytes; users take turns.

        The last bytes are only sent if all of them have the digest; otherwise ``DamagedError`` is
        raised.

        Raises:
            StatusError: the artifact may not be fetched or does not exist, or the server does not
                answer.
        """
        self._require(artifact)
        async with fairness.turn(self._passing, user), self._fetched(artifact) as found:
            yield found

    @asynccontextmanager
    async def _fetched(
        self, artifact: Held
    ) -> AsyncIterator[tuple[int | None, AsyncIterator[bytes]]]:
        url = self._require(artifact)
        try:
            async with self.session.get(url, allow_redirects=False) as response:
                _require_content(response, artifact)
                yield response.content_length, _checked(response.content, artifact)
        except OutOfReachError as exc:
            raise status.StatusError(403, "Forbidden", str(exc)) from exc
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise status.unavailable(
                f"cannot fetch artifact '{artifact.name}' from the artifact server: "
                f"{causes.cause(exc)}",
            ) from exc

    def _require(self, artifact: Held) -> str:
        url = self._hosts.require(artifact)
        if not literal_within(urlsplit(url).hostname or "", Reach.NOT_METADATA):
            raise status.StatusError(403, "Forbidden", "the address is a metadata service's")
        if not _DIGEST.fullmatch(artifact.digest):
            raise status.StatusError(
                422,
                "Invalid",
                f"artifact '{artifact.name}' has a digest that cannot be checked here; it is "
                f"'{artifact.digest[:16]}…', and those of {', '.join(ALGORITHMS)} can be",
            )
        return url


@asynccontextmanager
async def opened(hosts: Hosts, directory: Path) -> AsyncIterator[Blobs]:
    """Open the connections, and a cache below ``directory`` that is removed with the process."""
    cache = Cache(directory, idle_copies=_COPIES, idle_bytes=_BYTES)
    async with AsyncExitStack() as stack:
        await cache.open()
        stack.push_async_callback(cache.close)
        session = aiohttp.ClientSession(
            timeout=_TIMEOUT,
            # The turns bound them, each kind by itself.
            connector=connector(Reach.NOT_METADATA, limit=0),
            # The digest is of the raw bytes, so they must not be decompressed.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=CHUNK,
        )
        await stack.enter_async_context(session)
        yield Blobs(hosts, session=session, cache=cache)


_TIMEOUT: Final = aiohttp.ClientTimeout(total=900, sock_connect=5, sock_read=30)
"""The deadline of a request for bytes (``apiserver.server``)."""
_COPIES: Final = 64
_BYTES: Final = 512 << 20
_LOOKING: Final = 8
_SENDING: Final = 16
"""Each may hold a copy of ``LARGEST`` on the disk."""
_WAITING: Final = 64
_PASSING: Final = 64
"""A part of the 256 connections that the artifact server has."""
_WAITING_TO_PASS: Final = 192
_DIGEST: Final = re.compile(rf"({'|'.join(ALGORITHMS)}):[0-9a-f]{{64,128}}")


def _write(file: BufferedWriter, chunk: bytes) -> None:
    file.write(chunk)


def _require_content(response: aiohttp.ClientResponse, artifact: Held) -> None:
    if response.status == 404:
        raise status.StatusError(
            404,
            "NotFound",
            f"artifact '{artifact.name}' is not in the store any more",
            status.Details(name=artifact.name, group=status.GROUP, kind="artifacts"),
        )
    if response.status != 200:
        raise status.unavailable(
            f"the artifact server does not serve artifact '{artifact.name}'",
        )
    if (response.content_length or 0) > limits.PACKED:
        raise _too_large(artifact, limits.PACKED)


async def _checked(content: aiohttp.StreamReader, artifact: Held) -> AsyncIterator[bytes]:
    """Yield the body, its last piece only when all of it has the digest."""
    hasher = hashlib.new(artifact.digest.partition(":")[0])
    size, kept = 0, b""
    async for chunk in content.iter_chunked(CHUNK):
        size += len(chunk)
        if size > limits.PACKED:
            raise _too_large(artifact, limits.PACKED)
        hasher.update(chunk)
        if kept:
            yield kept
        kept = chunk
    if hasher.hexdigest() != artifact.digest.partition(":")[2]:
        raise DamagedError(artifact.name)
    yield kept


def _damaged(artifact: Held) -> status.StatusError:
    return status.unavailable(
        f"what the artifact server has for '{artifact.name}' is not what was stored: its digest is "
        "wrong",
    )


def _too_large(artifact: Held, limit: int) -> status.StatusError:
    return status.StatusError(
        413,
        "RequestEntityTooLarge",
        f"artifact '{artifact.name}' is larger than {limit >> 20} MiB; fetch all of it with the "
        "subresource `content` and inspect it locally",
    )
