"""Indexes and charts, as the rest of Penstock works with them: files in, files out.

All reading is done in worker processes (``toolkit.chart.worker``), which are killed at a deadline
and have bounded memory, because YAML and archives come from strangers. This side keeps nothing but
the answers to questions that were asked before: which version of a chart an index has for a range.
"""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from toolkit.chart import wire
from toolkit.chart.errors import ChartPackageError, IndexationError
from toolkit.chart.wire import Built, Dependency, Found, Inspected, PackageRequest, Summary
from toolkit.errors import TransientError
from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind

__all__ = ["Built", "Charts", "Dependency", "Found", "Inspected", "PackageRequest", "Summary"]

KIND: Final = WorkerKind(
    module="toolkit.chart.worker",  # indexes and charts: YAML and archives of strangers
    memory_limit=512 << 20,  # a chart of 100 MiB, its dependencies, and what reading them takes
    answer_limit=16 << 20,  # what was done, and no file of it
    umask=0o022,
    network=False,
)
SECONDS: Final = 120.0
"""For one operation. An index of 50 MiB takes 4 s of a processor that does nothing else."""


class Workers(Protocol):
    """The part of ``WorkerPool`` that is used."""

    async def call(self, op: str, payload: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109  # the pool's signature
        """Run one operation in a worker."""
        ...


def start(*, size: int, reads: Sequence[Path], writes: Sequence[Path]) -> pools.WorkerPool:
    """Return a pool of workers that read charts below ``reads`` and ``writes``."""
    return pools.WorkerPool(KIND, size=size, reads=reads, writes=writes)


_T = TypeVar("_T")


class Charts:
    """Reads indexes and packages charts through a pool of workers.

    ``seconds`` bounds each operation, ``remembered`` the answers of ``find`` that are kept.
    """

    def __init__(self, pool: Workers, *, seconds: float = SECONDS, remembered: int = 4096) -> None:
        self._pool = pool
        self._seconds = seconds
        self._remembered = remembered
        self._found: OrderedDict[tuple[str, str, str, str], Found] = OrderedDict()

    async def normalize(self, source: Path, into: Path) -> Summary:
        """Turn the index.yaml at ``source`` into JSON at ``into``; see ``toolkit.chart.index``.

        Raises:
            IndexationError: it is not an index, or too costly to read.
        """
        request = wire.IndexRequest(source=str(source), into=str(into))
        return await self._ask("index", request, Summary, failure=IndexationError)

    def known(self, digest: str, name: str, version: str, *, scope: str) -> Found | None:
        """Return what ``find`` returned before for an index with this digest."""
        asked = (scope, digest, name, version)
        found = self._found.get(asked)
        if found is not None:
            self._found.move_to_end(asked)
        return found

    async def find(self, index: Path, digest: str, name: str, version: str, *, scope: str) -> Found:
        """Return the version of a chart that an index has for a version or a range.

        ``digest`` names the content of the file, which ``normalize`` wrote, and ``scope`` is the
        namespace that asks: answers of a worker that one has taken over are not told to another.

        Raises:
            ChartReferenceError: there is none, or ``version`` cannot be read.
            IndexationError: the file is not what it should be.
        """
        if (known := self.known(digest, name, version, scope=scope)) is not None:
            return known
        request = wire.FindRequest(path=str(index), digest=digest, name=name, version=version)
        found = await self._ask("find", request, Found, failure=IndexationError)
        self._found[scope, digest, name, version] = found
        while len(self._found) > self._remembered:
            self._found.popitem(last=False)
        return found

    async def inspect(self, root: Path, path: str) -> Inspected:
        """Return which chart lies at ``path`` below ``root``; see ``toolkit.chart.build``."""
        request = wire.InspectRequest(root=str(root), path=path)
        return await self._ask("inspect", request, Inspected, failure=ChartPackageError)

    async def package(self, request: PackageRequest) -> Built:
        """Package a chart; see ``toolkit.chart.build``."""
        return await self._ask("package", request, Built, failure=ChartPackageError)

    async def _ask(
        self,
        op: str,
        request: object,
        answer: type[_T],
        *,
        failure: type[TransientError],
    ) -> _T:
        try:
            body = await self._pool.call(op, msgspec.msgpack.encode(request), timeout=self._seconds)
        except (pools.WorkerTimeoutError, pools.WorkerDiedError, pools.OperationError) as exc:
            raise failure(f"reading took too much: {exc}") from exc
        return msgspec.msgpack.decode(body, type=answer)
