"""Git repositories, as the rest of Penstock sees them: resolve a reference, check out, commit.

All work is done by dulwich in worker processes (``toolkit.remote.git.worker``), because a
fetch must be bounded in time and memory whatever the server does. This side holds no connection and
no state; credentials go with each request over the pipe.

Resolving asks for references only. Checking out takes exactly the commit that was resolved, so that
what is verified and what is stored are the same even if the branch moves in between.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind
from toolkit.remote import system
from toolkit.remote.git import wire
from toolkit.remote.git.auth import GitAuth, Proxy
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Limits, MiB
from toolkit.remote.git.objects import Signed
from toolkit.remote.git.refs import GitReference, Resolved
from toolkit.remote.git.url import GitUrl
from toolkit.remote.git.wire import (
    Author,
    Checkout,
    Committed,
    Landed,
    LandRequest,
    NewFile,
    TagObject,
)

__all__ = ["Author", "Checkout", "Committed", "GitAuth", "GitClient", "GitReference", "Limits"]
__all__ += ["NewFile", "Proxy", "Resolved", "Signed", "TagObject"]

KIND: Final = WorkerKind(
    module="toolkit.remote.git.worker",  # parses untrusted answers and packs
    memory_limit=256 * MiB,  # a checkout of 200 MB needs a tenth of it; the rest is for history
    answer_limit=16 << 20,  # answers contain no file content
    umask=0o022,
    network=True,  # it is the one that talks to the server
    variables=system.VARIABLES,
    reads=system.files(),
)


def start(*, size: int, writes: Sequence[Path]) -> pools.WorkerPool:
    """Return a pool of workers that fetch into directories below ``writes``."""
    return pools.WorkerPool(KIND, size=size, writes=writes)


_DOING: Final[Mapping[str, str]] = {
    "resolve": "fetching from",
    "checkout": "fetching from",
    "commit": "pushing to",
    "land": "pushing to",
}

_T = TypeVar("_T")


class Workers(Protocol):
    """The part of ``WorkerPool`` that is used."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ASYNC109  # the pool's signature
        """Run one operation in a worker."""
        ...


class GitClient:
    """Fetches from and pushes to any number of repositories through a pool of Git workers."""

    def __init__(self, pool: Workers, *, limits: Limits | None = None) -> None:
        self._pool = pool
        self._limits = limits or Limits()

    async def resolve(
        self,
        url: str,
        ref: GitReference,
        auth: GitAuth,
        *,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # a worker is killed, not a task cancelled
    ) -> Resolved:
        """Return the current commit of a reference; ``timeout`` is in seconds.

        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            GitError: see ``toolkit.remote.git.errors``.
            GitSpecError: the URL or the reference is invalid.
        """
        GitUrl.parse(url)
        request = wire.ResolveRequest(url=url, reference=ref, auth=auth, timeout=timeout)
        return await self._ask("resolve", url, request, Resolved, flow=flow, timeout=timeout)

    async def checkout(  # noqa: PLR0913  # the parts of a GitRepository's spec that count
        self,
        url: str,
        resolved: Resolved,
        auth: GitAuth,
        into: Path,
        *,
        recurse_submodules: bool = False,
        sparse: Sequence[str] = (),
        keep: Path | None = None,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # a worker is killed, not a task cancelled
    ) -> Checkout:
        """Write a commit's files into the empty directory ``into``; there is no ``.git``.

        When it fails the directory may hold a part of them: it is the caller's to remove. The pack
        that they came in stays as the file ``keep``, on the same disk, for ``land``.

        Raises:
            GitError: see ``toolkit.remote.git.errors``.
            GitSpecError: URL or reference can never be fetched.

        """
        scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".fetch-", dir=into.parent))
        try:
            request = wire.CheckoutRequest(
                url=url,
                resolved=resolved,
                auth=auth,
                into=str(into),
                scratch=str(scratch),
                recurse_submodules=recurse_submodules,
                sparse=tuple(sparse),
                keep=str(keep or ""),
                limits=self._limits,
                timeout=timeout,
            )
            return await self._ask("checkout", url, request, Checkout, flow=flow, timeout=timeout)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    async def commit(  # noqa: PLR0913  # the parts of a commit
        self,
        url: str,
        branch: str,
        files: Sequence[NewFile],
        auth: GitAuth,
        *,
        message: str,
        author: Author,
        now: datetime,
        scratch: Path,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # a worker is killed, not a task cancelled
        signing: wire.SigningKey | None = None,
    ) -> Committed:
        """Commit files on the tip of a branch and push it, unless nothing changes.

        A branch that does not exist, also in an empty repository, begins with this commit. Packs
        are stored below the directory ``scratch`` meanwhile.

        Raises:
            GitError: see ``toolkit.remote.git.errors``.
            GitSpecError: the URL, the branch, a path or the author is invalid.
        """
        GitUrl.parse(url)
        packs = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".commit-", dir=scratch))
        try:
            request = wire.CommitRequest(
                url=url,
                branch=branch,
                files=tuple(files),
                message=message,
                author=author,
                time=int(now.timestamp()),
                auth=auth,
                scratch=str(packs),
                limits=self._limits,
                timeout=timeout,
                signing=signing,
            )
            return await self._ask("commit", url, request, Committed, flow=flow, timeout=timeout)
        finally:
            await asyncio.to_thread(shutil.rmtree, packs, ignore_errors=True)

    async def land(self, request: LandRequest, *, flow: str) -> Landed:
        """Commit files on a commit that was checked out with ``keep``, and push it.

        Raises:
            GitMovedError: a target has moved: check out again.
            GitError: see ``toolkit.remote.git.errors``.
            GitSpecError: a path or the author is invalid.
        """
        request = replace(request, limits=self._limits)
        return await self._ask(
            "land", request.url, request, Landed, flow=flow, timeout=request.timeout
        )

    async def _ask(  # noqa: PLR0913  # the parts of a request
        self,
        op: str,
        url: str,
        request: object,
        answer: type[_T],
        *,
        flow: str,
        timeout: float,  # noqa: ASYNC109  # a worker is killed, not a task cancelled
    ) -> _T:
        payload = msgspec.msgpack.encode(request)
        try:
            return msgspec.msgpack.decode(
                await self._pool.call(op, payload, flow=flow, timeout=timeout), type=answer
            )
        except pools.WorkerTimeoutError as exc:
            raise GitError(f"{_DOING[op]} '{GitUrl.parse(url)}' timed out: {exc}") from exc
        except (pools.WorkerDiedError, pools.OperationError) as exc:
            raise GitError(f"{_DOING[op]} '{GitUrl.parse(url)}' failed: {exc}") from exc
