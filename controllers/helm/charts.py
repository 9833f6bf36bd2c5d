"""The chart in an artifact: its directory on disk, its name and its version.

A process fetches, verifies and unpacks an artifact once (``toolkit.artifact.fetch``). Name and
version of the chart are read once and cached by the digest of the artifact, so a reconciliation
that changes nothing opens no chart. The artifact of each source is fetched, even if another source
has the same content: a source that states a digest does not prove that it can read the content.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controllers.helm.sources import ChartSource
from toolkit.artifact import fetch
from toolkit.artifact.fetch import Fetcher
from toolkit.errors import PenstockError, TransientError
from toolkit.helm.actions import Chart

_REMEMBERED: Final = 1024
_METADATA: Final = "Chart.yaml"

Load = Callable[[Path, str], Awaitable[Chart]]
"""Reads the chart in a directory with the engine, for a flow of ``WorkerPool.call``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Name and versions of a chart, as its ``Chart.yaml`` states them."""

    name: str
    version: str
    app_version: str = ""


class Charts:
    """Opens the charts of sources, and caches their names and versions."""

    def __init__(self, fetcher: Fetcher, load: Load) -> None:
        self._fetcher = fetcher
        self._load = load
        self._known: OrderedDict[tuple[str, str], About] = OrderedDict()
        self._contents: OrderedDict[str, About] = OrderedDict()

    @asynccontextmanager
    async def opened(self, source: ChartSource) -> AsyncIterator[Path]:
        """Yield the directory of the chart, which may be removed after the block.

        Raises:
            WaitingError: the server no longer has the artifact.
            TransientError: the artifact cannot be fetched, does not match the digest in the status
                of its source, or contains no chart.
        """
        async with self._fetcher.extracted(source.artifact, source.owner) as extracted:
            yield await asyncio.to_thread(_directory, extracted.path)

    async def about(self, source: ChartSource, *, flow: str) -> About:
        """Return name and versions of the chart, which is read for ``flow`` if it is not cached.

        Raises:
            PenstockError: an error of ``opened``, or the chart cannot be read.
        """
        key = (source.owner.path, source.artifact.digest)
        if key not in self._known:
            async with self.opened(source) as directory:
                self._known[key] = await self._content(source.artifact.digest, directory, flow)
            _trim(self._known)
        self._known.move_to_end(key)
        return self._known[key]

    async def _content(self, digest: str, directory: Path, flow: str) -> About:
        """Return name and versions of the chart with this digest, from the cache if possible."""
        if digest not in self._contents:
            self._contents[digest] = await self._read(directory, flow)
            _trim(self._contents)
        return self._contents[digest]

    async def _read(self, directory: Path, flow: str) -> About:
        try:
            chart = await self._load(directory, flow)
        except PenstockError as error:
            raise error.within("Could not load chart", reason=fetch.REASON) from error
        return About(name=chart.name, version=chart.version, app_version=chart.app_version)


def _trim(known: OrderedDict[Any, About]) -> None:
    while len(known) > _REMEMBERED:
        known.popitem(last=False)


def _directory(content: Path) -> Path:
    """Return the only directory with a chart, which is at the top level of the archive."""
    found = [path for path in sorted(content.iterdir()) if (path / _METADATA).is_file()]
    if len(found) == 1:
        return found[0]
    raise TransientError(
        "Could not load chart: the artifact holds no directory with a Chart.yaml at its top, or"
        " more than one; use a package made by 'helm package'",
        reason=fetch.REASON,
    )
