"""The artifact server: files of the store over HTTP, and nothing else.

GET and HEAD with ETag, Range and conditional requests; no listing, no way out of the root. A file
whose content does not have the digest of its ETag cannot be served: the digest is read from the
content itself, once per inode, so a damaged file answers with another ETag and another
``X-Artifact-Digest`` than its source object names, and consumers refuse it.
"""

import asyncio
from pathlib import Path
from typing import Final

from aiohttp import web

from toolkit.artifact.storage import Storage

_STORAGE: Final = web.AppKey("storage", Storage)
_BUSY: Final = web.AppKey("busy", asyncio.Semaphore)
_CONCURRENT: Final = 256


def application(storage: Storage) -> web.Application:
    """Return the server for one store."""
    app = web.Application()
    app[_STORAGE] = storage
    app[_BUSY] = asyncio.Semaphore(_CONCURRENT)
    app.router.add_get("/{path:.+}", _serve)
    return app


async def _serve(request: web.Request) -> web.StreamResponse:
    storage = request.app[_STORAGE]
    async with request.app[_BUSY]:
        path = await asyncio.to_thread(_resolve, storage.root, request.match_info["path"])
        if path is None:
            raise web.HTTPNotFound(text="artifact not found\n")
        try:
            digest = await asyncio.to_thread(storage.digest, path)
        except OSError as error:
            raise web.HTTPNotFound(text="artifact not found\n") from error
        etag = f'"{digest}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        response = web.FileResponse(path, headers={"X-Artifact-Digest": digest})
        response.content_type = "application/gzip"
        return response


def _resolve(root: Path, requested: str) -> Path | None:
    """Return the regular file below the root that the path names, or None.

    Hidden files are those being written; links are followed only inside the root.
    """
    parts = requested.split("/")
    if any(part in {"", ".", ".."} or part.startswith(".") or "\0" in part for part in parts):
        return None
    path = (root / requested).resolve()
    if path.is_relative_to(root.resolve()) and path.is_file():
        return path
    return None
