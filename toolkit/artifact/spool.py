"""Directories for files before they are stored; removed after success and failure."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from toolkit import disk
from toolkit.errors import TransientError


@asynccontextmanager
async def directory(parent: Path) -> AsyncIterator[Path]:
    """Give an empty directory below ``parent`` and remove it afterwards, off the event loop.

    Raises:
        TransientError: the disk refused.
    """
    made = await asyncio.to_thread(_make, parent)
    try:
        yield made
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, made, ignore_errors=True))


def _make(parent: Path) -> Path:
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="spool-", dir=parent))
    except OSError as exc:
        message = f"cannot make a directory below '{parent}': {disk.why(exc, parent)}"
        raise TransientError(message, reason="StorageOperationFailed") from exc
