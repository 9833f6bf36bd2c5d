"""Indexes and charts, as the rest of Penstock uses them: files in, files out.

Worker processes (``toolkit.chart.worker``) read everything, because YAML and archives are
untrusted. The workers have bounded memory and are killed at a deadline. This side only keeps
answers to earlier questions: which version of a chart an index has for a range.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import msgspec

from toolkit.chart import wire
from toolkit.chart.errors import ChartPackageError, IndexationError
from toolkit.chart.wire import Built, Dependency, Found, Inspected, PackageRequest, Summary
from toolkit.errors import TransientError
from toolkit.native import calls, library
from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind

__all__ = ["Built", "Charts", "Dependency", "Found", "Inspected", "PackageRequest", "Summary"]

MEMORY_LIMIT: Final = 512 << 20
"""Bytes for a worker: a chart of 100 MiB, its dependencies, and what reading them takes."""
SECONDS: Final = 120.0
"""Timeout of one operation. An index of 50 MiB takes 4 s on an idle processor."""


class Workers(Protocol):
    """The part of ``WorkerPool`` that is used."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ASYNC109  # the pool's signature
        """Run one operation in a worker."""
        ...


def kind(*, memory_limit: int = MEMORY_LIMIT) -> WorkerKind:
    """Return the row of such a worker; see ``start``."""
    row = calls.kind(memory_limit=memory_limit, path=library.with_helm(library.find()))
    return replace(
        row,
        module="toolkit.chart.worker",  # It parses untrusted indexes and charts: YAML and archives.
        # A chart is read once: an eager collector costs little, and keeps 10 MiB a worker.
        environment={**row.environment, "GOGC": "50"},
        answer_limit=16 << 20,  # Answers contain no file content.
        umask=0o022,
        patience=1.0,  # most operations take milliseconds, and another worker 30 MiB
        starting=5.0,
    )


def start(*, size: int, reads: Sequence[Path], writes: Sequence[Path]) -> pools.WorkerPool:
    """Return a pool of workers that read charts below ``reads`` and ``writes``.

    Raises:
        StalledError: the engine is not built.
    """
    return pools.WorkerPool(kind(), size=size, reads=reads, writes=writes)


class Charts:
    """Reads indexes and packages charts through a pool of workers.

    ``seconds`` bounds each operation, ``remembered`` the answers of ``find`` that are kept.
    """

    def __init__(self, pool: Workers, *, seconds: float = SECONDS, remembered: int = 4096) -> None:
        self._pool = pool
        self._seconds = seconds
        self._remembered = remembered
        self._found: OrderedDict[tuple[str, str, str, str], Found] = OrderedDict()

    async def normalize(self, source: Path, into: Path, *, flow: str) -> Summary:
        """Turn the index.yaml at ``source`` into JSON at ``into``; see ``toolkit.chart.index``.

        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            IndexationError: it is not an index, or too costly to read.
        """
        request = msgspec.msgpack.encode(wire.IndexRequest(source=str(source), into=str(into)))
        answer = await self._ask("index", request, flow, failure=IndexationError)
        return msgspec.msgpack.decode(answer, type=Summary)

    def known(self, digest: str, name: str, version: str, *, scope: str) -> Found | None:
        """Return an earlier result of ``find`` for an index with this digest, or None."""
        asked = (scope, digest, name, version)
        found = self._found.get(asked)
        if found is not None:
            self._found.move_to_end(asked)
        return found

    async def find(self, index: Path, digest: str, name: str, version: str, *, scope: str) -> Found:
        """Return the version of a chart in an index, for a version or a range.

        ``digest`` identifies the content of the file, which ``normalize`` wrote. ``scope`` is the
        namespace of the caller: answers of a worker that one tenant has compromised are not used
        for others.

        Raises:
            ChartReferenceError: there is no such version, or ``version`` is invalid.
            IndexationError: the file is not a normalized index.
        """
        if (known := self.known(digest, name, version, scope=scope)) is not None:
            return known
        request = wire.FindRequest(path=str(index), digest=digest, name=name, version=version)
        asked = msgspec.msgpack.encode(request)
        answer = await self._ask("find", asked, scope, failure=IndexationError)
        found = msgspec.msgpack.decode(answer, type=Found)
        self._found[scope, digest, name, version] = found
        while len(self._found) > self._remembered:
            self._found.popitem(last=False)
        return found

    async def inspect(self, root: Path, path: str, *, flow: str) -> Inspected:
        """Return the chart at ``path`` below ``root``, and the dependencies that it lacks.

        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            ChartReferenceError: there is no chart, or the path leads out of the root.
            ChartPackageError: the chart cannot be read.
            DependencyBuildError: a dependency has no repository.
        """
        request = msgspec.json.encode(wire.InspectRequest(root=str(root), path=path))
        answer = await self._ask("inspect", request, flow, failure=ChartPackageError)
        return msgspec.json.decode(answer, type=Inspected)

    async def package(self, request: PackageRequest, *, flow: str) -> Built:
        """Write the package that the request describes.

        A package without any change is copied byte for byte. ``flow`` is that of
        ``WorkerPool.call``.

        Raises:
            ChartReferenceError: there is no chart, or the path leads out of the root.
            MetadataPatchError: the version cannot have metadata.
            ValuesFilesError: a values file does not exist, leads out of the root, or is no YAML
                mapping.
            DependencyBuildError: a dependency is not the one that the chart asks for.
            ChartPackageError: the chart cannot be read, or the package is too large.
        """
        asked = msgspec.json.encode(request)
        answer = await self._ask("package", asked, flow, failure=ChartPackageError)
        return msgspec.json.decode(answer, type=Built)

    async def _ask(
        self, op: str, request: bytes, flow: str, *, failure: type[TransientError]
    ) -> bytes:
        try:
            return await self._pool.call(op, request, flow=flow, timeout=self._seconds)
        except (pools.WorkerTimeoutError, pools.WorkerDiedError, pools.OperationError) as exc:
            raise failure(f"reading took too much: {exc}") from exc
