"""A cache of checked-out commits, so that runs need not fetch them again.

Before a run uses an entry, the server has resolved the commit for the run's own credentials. So a
run sees nothing here that it cannot see on the server.
"""

import asyncio
import hashlib
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolkit.remote.git.git import GitAuth, GitClient, Resolved

KEPT: Final = 8
"""Unused commits that stay in the cache."""


@dataclass(slots=True, eq=False)
class _Place:
    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    filled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The files of a commit, to be read only, and the pack that they came in."""

    files: Path
    pack: Path


class Checkouts:
    """Keeps them below ``root``, which is the process's own."""

    def __init__(self, git: GitClient, root: Path, *, kept: int = KEPT) -> None:
        self._git = git
        self._root = root
        self._bound = kept
        self._places: OrderedDict[str, _Place] = OrderedDict()

    @asynccontextmanager
    async def use(
        self,
        url: str,
        resolved: Resolved,
        auth: GitAuth,
        *,
        flow: str,
        timeout: float,  # noqa: ASYNC109 - a worker is killed, not a task cancelled
    ) -> AsyncIterator[Checkout]:
        """Give a commit's files for the length of the block; ``flow`` is that of the pool.

        Raises:
            GitError: it cannot be fetched.
        """
        name = hashlib.sha256(f"{url}\0{resolved.commit}".encode()).hexdigest()
        place = self._places.setdefault(name, _Place(self._root / name))
        self._places.move_to_end(name)
        place.users += 1
        checkout = Checkout(files=place.path / "files", pack=place.path / "pack")
        try:
            async with place.lock:
                if not place.filled:
                    await asyncio.to_thread(_empty, place.path)
                    await self._git.checkout(
                        url,
                        resolved,
                        auth,
                        checkout.files,
                        keep=checkout.pack,
                        flow=flow,
                        timeout=timeout,
                    )
                    place.filled = True
            yield checkout
        finally:
            place.users -= 1
            await asyncio.shield(self._make_room())

    async def _make_room(self) -> None:
        idle = [name for name, place in self._places.items() if not place.users]
        useless = [name for name in idle if not self._places[name].filled]
        old = [name for name in idle if name not in useless][: max(0, len(idle) - self._bound)]
        for name in (*useless, *old):
            place = self._places.pop(name)
            await asyncio.to_thread(shutil.rmtree, place.path, ignore_errors=True)


def _empty(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700, parents=True)
