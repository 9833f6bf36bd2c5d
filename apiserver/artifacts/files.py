"""``artifacts/files``: the files of an artifact, and the content of one.

``files`` lists a tarball; ``files?path=deploy/app.yaml`` returns one file, as plain text or as
bytes, never as something that a browser would run. An artifact that is not a tarball, such as the
index of a HelmRepository, has one file. Third parties may have written the tarball: it is read as
consumers read it, within the same bounds, in a thread, few at a time.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from aiohttp import web
from multidict import MultiMapping

from apiserver import encoding, fairness, status
from apiserver.artifacts.blobs import Blobs
from apiserver.artifacts.catalog import Catalog
from apiserver.artifacts.held import Held
from apiserver.artifacts.shown import API_VERSION
from apiserver.call import Call
from apiserver.status import StatusError
from toolkit.artifact import archive, layout, threads
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import TransientError
from toolkit.objects import Json
from toolkit.turns import Turns

T = TypeVar("T")

Work: TypeAlias = Callable[[Path, Checkpoint], T]
"""Reads an artifact's file; blocks."""

LONGEST: Final = 8 << 20
"""Bytes of a file that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file in an artifact."""

    path: str
    size: int
    executable: bool
    sha256: str

    def document(self) -> Json:
        """Return the file as JSON, for users who may read its content."""
        return {**self.outline(), "sha256": self.sha256}

    def outline(self) -> Json:
        """Return the file as JSON without its digest, which could disclose a short secret."""
        return {
            "path": self.path.encode(errors="backslashreplace").decode(),
            "size": self.size,
            "mode": "0700" if self.executable else "0600",
        }


class Files:
    """Reads artifacts; caches the file lists of the last ones."""

    def __init__(self, catalog: Catalog, fetch: asyncio.Future[Blobs]) -> None:
        self._catalog = catalog
        self._fetch = fetch
        self._turns = Turns(places=_AT_ONCE, waiting=_WAITING)
        self._listings: OrderedDict[str, tuple[File, ...]] = OrderedDict()

    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer one request."""
        require_known(call.query, "path")
        artifact = self._catalog.require(call)
        if "path" in call.query:
            return await self._one(call, artifact, call.query["path"])
        files = await self.of(call, artifact)
        return await encoding.respond_large(call, lambda: _document(artifact, files))

    async def of(self, call: Call, artifact: Held) -> tuple[File, ...]:
        """Return the files of an artifact, in the order of their paths.

        Raises:
            StatusError: it cannot be fetched, or is nothing that consumers would unpack.
        """
        key = f"{artifact.owner.path} {artifact.digest}"
        known = self._listings.get(key)
        if known is None:
            known = await self.read(
                call, artifact, lambda path, check: _list(artifact, path, check)
            )
        self._keep(key, known)
        return known

    async def read(self, call: Call, artifact: Held, work: Work[T]) -> T:
        """Return the result of ``work`` on an artifact's file; few run at a time, fair to users."""
        found = await self._fetch
        try:
            async with (
                found.file(artifact, call.user) as path,
                fairness.turn(self._turns, call.user),
            ):
                return await threads.run(lambda checkpoint: work(path, checkpoint))
        except TransientError as exc:
            raise StatusError(
                422, "Invalid", f"artifact '{artifact.name}' cannot be read: {exc}"
            ) from exc

    async def _one(self, call: Call, artifact: Held, path: str) -> web.StreamResponse:
        # 1. The path must be one of the listed files.
        wanted = next((each for each in await self.of(call, artifact) if each.path == path), None)
        if wanted is None:
            raise StatusError(
                404,
                "NotFound",
                f"artifact '{artifact.name}' has no file {path[:200]!a}; `files` without "
                "path lists what it has",
            )
        # 2. It is small enough to be held.
        if wanted.size > LONGEST:
            raise StatusError(
                413,
                "RequestEntityTooLarge",
                f"the file has {wanted.size} bytes, and {LONGEST >> 20} MiB are shown; the "
                "subresource `content` has all of the artifact",
            )
        data = await self.read(
            call, artifact, lambda file, check: _content(artifact, file, wanted, check)
        )
        return _response(call, wanted, data)

    def _keep(self, key: str, files: tuple[File, ...]) -> None:
        self._listings[key] = files
        self._listings.move_to_end(key)
        while len(self._listings) > 1 and sum(map(_weight, self._listings.values())) > _REMEMBERED:
            self._listings.popitem(last=False)


_AT_ONCE: Final = 2
_WAITING: Final = 32
_PATHS: Final = 8 << 20
"""Characters of all paths of a listing: 50,000 files of 160 each."""
_REMEMBERED: Final = 32 << 20
"""About the bytes of all listings together."""
_EACH: Final = 256
"""Bytes of a file without its path."""
_TARBALLS: Final = (".tar.gz", ".tgz")


def require_known(query: MultiMapping[str], *names: str) -> None:
    """Refuse unknown parameters, because a misspelled one would change the answer.

    Raises:
        StatusError: 400.
    """
    for name in names:
        if len(query.getall(name, [])) > 1:
            raise status.bad_request(f"the parameter '{name}' may be given once")
    known = {*names, "pretty", "timeout"}
    if strange := sorted(set(query) - known):
        raise status.bad_request(
            f"the parameter {strange[0][:40]!a} is not known; there is {', '.join(names)}"
        )


def is_tarball(artifact: Held) -> bool:
    """Tell whether an artifact is a tarball, by its name."""
    return artifact.file.endswith(_TARBALLS)


def _document(artifact: Held, files: Iterable[File]) -> Json:
    listed = [each.document() for each in files]
    return {
        "apiVersion": API_VERSION,
        "kind": "ArtifactFiles",
        "metadata": {"name": artifact.name, "namespace": artifact.owner.namespace},
        "revision": artifact.revision,
        "digest": artifact.digest,
        "count": len(listed),
        "totalSize": sum(each["size"] for each in listed),
        "files": listed,
    }


def _found(artifact: Held, path: Path, checkpoint: Checkpoint) -> Iterator[archive.Found]:
    """Yield the files of a tarball, or the one that the artifact is."""
    if is_tarball(artifact):
        yield from archive.files(path, checkpoint=checkpoint)
        return
    with path.open("rb") as file:
        yield archive.Found(
            name=layout.latest(artifact.file),
            size=path.stat().st_size,
            executable=False,
            content=iter(lambda: file.read(_CHUNK), b""),
        )


_CHUNK: Final = 256 << 10


def _weight(files: tuple[File, ...]) -> int:
    return sum(_EACH + len(file.path) for file in files)


def _list(artifact: Held, path: Path, checkpoint: Checkpoint) -> tuple[File, ...]:
    files, paths = [], 0
    for found in _found(artifact, path, checkpoint):
        paths += len(found.name)
        if paths > _PATHS:
            raise TransientError(
                f"its paths have more than {_PATHS >> 20} MiB together; the subresource `content` "
                "has all of it"
            )
        hasher = hashlib.sha256()
        for chunk in found.content:
            checkpoint()
            hasher.update(chunk)
        files.append(
            File(
                path=found.name,
                size=found.size,
                executable=found.executable,
                sha256=hasher.hexdigest(),
            )
        )
    return tuple(sorted(files, key=lambda file: file.path))


def _content(artifact: Held, path: Path, wanted: File, checkpoint: Checkpoint) -> bytes:
    for found in _found(artifact, path, checkpoint):
        if found.name == wanted.path:
            return b"".join(found.content)
    return b""


def _response(call: Call, wanted: File, data: bytes) -> web.Response:
    try:
        data.decode()
    except UnicodeDecodeError:
        kind = "application/octet-stream"
    else:
        kind = "text/plain; charset=utf-8"
    if call.web.method == "HEAD":
        data = b""
    name = "".join(
        char if char.isascii() and (char.isalnum() or char in "._+-") else "_"
        for char in wanted.path.rpartition("/")[2]
    )
    return web.Response(
        body=data,
        headers={
            "Content-Type": kind,
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Content-Disposition": f'attachment; filename="{name[:255]}"',
            "ETag": f'"sha256:{wanted.sha256}"',
        },
    )
