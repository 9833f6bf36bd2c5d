"""The chart in an artifact: its directory on disk, and what is told of it.

An artifact is fetched, verified and unpacked once a process (``toolkit.artifact.fetch``); name and
version of its chart are read once and remembered by its digest, so a pass that changes nothing
opens no chart. Each source has its artifact fetched, also if another one has the same content:
who names a digest need not be able to read it.
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

Load = Callable[[Path], Awaitable[Chart]]
"""Reads the chart of a directory with the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is told of a chart."""

    name: str
    version: str
    app_version: str = ""


class Charts:
    """Opens charts; ``load`` reads one."""

    def __init__(self, fetcher: Fetcher, load: Load) -> None:
        self._fetcher = fetcher
        self._load = load
        self._known: OrderedDict[tuple[str, str], About] = OrderedDict()
        self._contents: OrderedDict[str, About] = OrderedDict()

    @asynccontextmanager
    async def opened(self, source: ChartSource) -> AsyncIterator[Path]:
        """Give the directory of the chart; it may go once the block is left.

        Raises:
            WaitingError: the artifact is gone from the server.
            TransientError: it cannot be fetched, is not what its source names, or holds no chart.
        """
        async with self._fetcher.extracted(source.artifact, source.owner) as extracted:
            yield await asyncio.to_thread(_directory, extracted.path)

    async def about(self, source: ChartSource) -> About:
        """Return what is told of the chart.

        Raises:
            PenstockError: as ``opened`` does, or the chart cannot be read.
        """
        key = (source.owner.path, source.artifact.digest)
        if key not in self._known:
            async with self.opened(source) as directory:
                self._known[key] = await self._content(source.artifact.digest, directory)
            _trim(self._known)
        self._known.move_to_end(key)
        return self._known[key]

    async def _content(self, digest: str, directory: Path) -> About:
        """Return the description of the chart with this digest, read once."""
        if digest not in self._contents:
            self._contents[digest] = await self._read(directory)
            _trim(self._contents)
        return self._contents[digest]

    async def _read(self, directory: Path) -> About:
        try:
            chart = await self._load(directory)
        except PenstockError as error:
            raise error.within("Could not load chart", reason=fetch.REASON) from error
        return About(name=chart.name, version=chart.version, app_version=chart.app_version)


def _trim(known: OrderedDict[Any, About]) -> None:
    while len(known) > _REMEMBERED:
        known.popitem(last=False)


def _directory(content: Path) -> Path:
    """Return the one directory with a chart; packages have it at their top."""
    found = [path for path in sorted(content.iterdir()) if (path / _METADATA).is_file()]
    if len(found) == 1:
        return found[0]
    raise TransientError(
        "Could not load chart: the artifact holds no directory with a Chart.yaml at its top, or"
        " more than one; offer a package as 'helm package' makes it",
        reason=fetch.REASON,
    )
