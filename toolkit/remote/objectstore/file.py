"""The body of an answer becomes a file, whole or not at all; no disk is waited for in the loop."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import aiohttp

from toolkit.errors import TransientError
from toolkit.remote.objectstore.errors import ObjectChangedError, ObjectStoreError
from toolkit.remote.objectstore.http import CHUNK, Subject
from toolkit.remote.objectstore.place import Object


async def save(
    response: aiohttp.ClientResponse,
    into: Path,
    limit: int,
    expect: Object | None,
    subject: Subject,
) -> int:
    """Write the body into the new file ``into`` and return its size.

    Raises:
        ObjectStoreError: it is larger than ``limit`` bytes, or than the expected object.
        TransientError: the disk failed (reason StorageOperationFailed).
    """
    file = _File(into)
    try:
        return await _copy(response, file, limit, expect, subject)
    except BaseException:
        await _disk(file.discard)
        raise


async def _copy(
    response: aiohttp.ClientResponse,
    file: "_File",
    limit: int,
    expect: Object | None,
    subject: Subject,
) -> int:
    size, held = 0, b""
    async for chunk in _gathered(response):
        size += len(chunk)
        if size > limit:
            raise ObjectStoreError(f"cannot {subject.action}: it is larger than {limit} bytes")
        if held:
            await _disk(partial(file.write, held))
        held = chunk
    if expect and size != expect.size:
        raise ObjectChangedError(f"cannot {subject.action}: its size is not as listed")
    # Most objects are small, and cost one errand of a thread only.
    await _disk(partial(file.finish, held))
    return size


class _File:
    """A new file, made with the first that is written, and removed if it does not get finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("xb", buffering=0)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def finish(self, data: bytes) -> None:
        self.write(data)
        if self._file:
            self._file.close()

    def discard(self) -> None:
        if self._file:
            self._file.close()
            self._path.unlink(missing_ok=True)


async def _gathered(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body in pieces that are worth a write."""
    pieces: list[bytes] = []
    held = 0
    async for chunk in response.content.iter_any():
        pieces.append(chunk)
        held += len(chunk)
        if held >= CHUNK:
            yield b"".join(pieces)
            pieces, held = [], 0
    if pieces:
        yield b"".join(pieces)


async def _disk(work: Callable[[], None]) -> None:
    """Run a file operation in a thread; if cancelled, wait for its end.

    Its errors are not errors of the server.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except OSError as exc:
        raise TransientError(
            f"cannot write what was read: {os.strerror(exc.errno or errno.EIO)}",
            reason="StorageOperationFailed",
        ) from exc
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
