"""``artifacts/content``: the file itself, as it is stored.

GET and HEAD with entity tags and ranges. A whole file is streamed, and its last part is sent only
if all of it has the digest. Otherwise the connection is closed, so a client cannot take a part for
the whole. A range is cut from a copy that was verified before. For an artifact that is too large
for a copy, there are no ranges.
"""

import asyncio
import base64
import logging
import os
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from apiserver.artifacts import blobs
from apiserver.artifacts.blobs import Blobs, DamagedError
from apiserver.artifacts.catalog import Catalog
from apiserver.artifacts.held import Held
from apiserver.artifacts.shown import media_type, moment
from apiserver.call import Call
from apiserver.status import StatusError
from toolkit.artifact import ranges
from toolkit.artifact.ranges import Plan

logger = logging.getLogger(__name__)


class Content:
    """Answers from ``blobs``."""

    def __init__(self, catalog: Catalog, fetch: asyncio.Future[Blobs]) -> None:
        self._catalog = catalog
        self._fetch = fetch

    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer one request."""
        artifact = self._catalog.require(call)
        found = await self._fetch
        if not artifact.size:
            # A third party did not state the size, so it needs a local copy.
            async with found.file(artifact, call.user) as path:
                size = await asyncio.to_thread(os.path.getsize, path)
            return await _answer(call, artifact, found, size)
        return await _answer(call, artifact, found, artifact.size)


async def _answer(call: Call, artifact: Held, found: Blobs, size: int) -> web.StreamResponse:
    etag = f'"{artifact.digest}"'
    headers = CIMultiDict(call.web.headers)
    if size > blobs.LARGEST:
        # A request for a part gets the whole, as RFC 9110 (14.2) allows.
        headers.popall("Range", None)
    plan = ranges.plan(headers, etag=etag, modified=moment(artifact.stored), size=size)
    response = _headed(artifact, plan, etag, size)
    if call.web.method == "HEAD" or not plan.length:
        await response.prepare(call.web)
        return response
    if plan.status == 206:
        async with found.file(artifact, call.user, to_send=True) as path:
            await response.prepare(call.web)
            await _send(call, response, _part(path, plan), plan.length)
        return response
    async with found.stream(artifact, call.user) as (length, chunks):
        if length not in {None, size}:
            raise StatusError(
                503,
                "ServiceUnavailable",
                f"the artifact server has {length} bytes for '{artifact.name}', not {size}",
            )
        await response.prepare(call.web)
        await _send(call, response, chunks, size)
    return response


_GRACE: Final = 30.0
_BYTES_PER_SECOND: Final = 256 << 10


def _headed(artifact: Held, plan: Plan, etag: str, size: int) -> web.StreamResponse:
    response = web.StreamResponse(status=plan.status)
    headers = response.headers
    headers["ETag"] = etag
    headers["Accept-Ranges"] = "bytes"
    if field := _digest_field(artifact.digest):
        headers["Repr-Digest"] = field
    headers["X-Artifact-Digest"] = artifact.digest
    headers["X-Content-Type-Options"] = "nosniff"
    if artifact.stored:
        headers["Last-Modified"] = formatdate(moment(artifact.stored), usegmt=True)
    if plan.status == 206:
        last = plan.start + plan.length - 1
        headers["Content-Range"] = f"bytes {plan.start}-{last}/{size}"
    if plan.status == 416:
        headers["Content-Range"] = f"bytes */{size}"
    if plan.status != 304:
        response.content_length = plan.length
        response.content_type = media_type(artifact.file)
        headers["Content-Disposition"] = f'attachment; filename="{_filename(artifact.file)}"'
    return response


async def _send(
    call: Call, response: web.StreamResponse, chunks: AsyncIterator[bytes], length: int
) -> None:
    """Send the bytes; after an error close the connection, so that no client accepts a part."""
    try:
        async with asyncio.timeout(_GRACE + length / _BYTES_PER_SECOND):
            async for chunk in _exactly(chunks, length):
                await response.write(chunk)
            await response.write_eof()
    except (DamagedError, StatusError, TimeoutError, ConnectionError, OSError) as exc:
        logger.warning(
            "artifact not sent to the end",
            extra={
                "object": f"{call.namespace}/{call.name}",
                "error": str(exc) or type(exc).__name__,
            },
        )
        _abort(call)
    except asyncio.CancelledError:
        _abort(call)
        raise


async def _exactly(chunks: AsyncIterator[bytes], length: int) -> AsyncIterator[bytes]:
    """Yield the bytes; raise if there are more or fewer than announced."""
    left = length
    async for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise DamagedError("there is more than was announced")
        yield chunk
    if left:
        raise DamagedError("there is less than was announced")


def _abort(call: Call) -> None:
    if call.web.transport is not None:
        call.web.transport.abort()


async def _part(path: Path, plan: Plan) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb", buffering=0) as file:
        end = plan.start + plan.length
        for offset in range(plan.start, end, blobs.CHUNK):
            yield await asyncio.to_thread(
                os.pread, file.fileno(), min(blobs.CHUNK, end - offset), offset
            )


def _digest_field(digest: str) -> str:
    """Return a digest as RFC 9530 writes it: ``sha-256=:<base64>:``."""
    algorithm, _, value = digest.partition(":")
    try:
        encoded = base64.b64encode(bytes.fromhex(value)).decode()
    except ValueError:
        return ""
    return f"{algorithm.replace('sha', 'sha-')}=:{encoded}:"


def _filename(file: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "._+-") else "_" for char in file
    )[:255]
