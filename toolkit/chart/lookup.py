"""Find a version of a chart in an index, without decoding other charts.

The file is mapped into memory, and only the entries of one chart are decoded. The choice follows
Flux (``GetChartVersion``): an exact version, even if it is a pre-release; otherwise the highest
version in the range, and of equal ones the most recent. Blocks: for a worker.
"""

import difflib
import mmap
from pathlib import Path
from typing import Final

import msgspec

from crds import misfits
from toolkit.chart import limits, version
from toolkit.chart.errors import ChartReferenceError, IndexationError
from toolkit.chart.wire import Found


class Catalog:
    """Remembers where the charts of the last few indexes are."""

    def __init__(self) -> None:
        self._indexes: dict[str, dict[str, msgspec.Raw]] = {}

    def find(self, path: Path, digest: str, name: str, wanted: str) -> Found:
        """Return the version of ``name`` for ``wanted``, which is a version or a range.

        Raises:
            ChartReferenceError: there is no such version, or ``wanted`` is not a range.
            IndexationError: the file is not a normalized index.
        """
        charts = self._charts(path, digest)
        if name not in charts:
            similar = difflib.get_close_matches(name[:_LONGEST], list(charts)[:_COMPARED], n=1)
            meant = f": write {similar[0]!r}" if similar else ""
            raise ChartReferenceError(f"the repository has no chart '{name[:_LONGEST]}'{meant}")
        try:
            entries = msgspec.json.decode(charts[name], type=list[_Entry])
        except msgspec.DecodeError as exc:
            raise IndexationError(f"the index cannot be read: {misfits.told(exc)}") from exc
        entry = _chosen(entries, wanted, name)
        return Found(
            name=name, version=entry.version, urls=tuple(entry.urls), digest=entry.digest or ""
        )

    def _charts(self, path: Path, digest: str) -> dict[str, msgspec.Raw]:
        if digest in self._indexes:
            return self._indexes[digest]
        while len(self._indexes) >= _KEPT:
            del self._indexes[next(iter(self._indexes))]
        if path.stat().st_size > 2 * limits.INDEX_BYTES:
            raise IndexationError("the index is too large")
        with path.open("rb") as file:
            written = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            index = msgspec.json.decode(written, type=_Index)
        except msgspec.DecodeError as exc:
            raise IndexationError(f"the index cannot be read: {misfits.told(exc)}") from exc
        self._indexes[digest] = index.entries
        return index.entries


class _Index(msgspec.Struct):
    entries: dict[str, msgspec.Raw] = {}


class _Entry(msgspec.Struct):
    version: str
    urls: list[str]
    digest: str | None = None
    created: str | None = None


_KEPT: Final = 2
_LONGEST: Final = 200
_COMPARED: Final = 2_000
"""Limit of names that a misspelt one is compared with."""


def _chosen(entries: list[_Entry], wanted: str, name: str) -> _Entry:
    exact = next((entry for entry in entries if entry.version == wanted), None)
    if exact is not None:
        return exact
    try:
        within = version.constraint(wanted)
    except ValueError as exc:
        raise ChartReferenceError(f"spec.version: {exc}") from exc
    fitting = []
    for place, entry in enumerate(entries):
        try:
            number = version.parse(entry.version)
        except ValueError:
            continue
        if number in within:
            fitting.append((number, entry.created or "", -place))
    if not fitting:
        newest = f": the highest version is '{entries[0].version}'" if entries else ""
        raise ChartReferenceError(
            f"no '{name}' chart with version matching '{wanted}' found{newest}"
        )
    return entries[-max(fitting)[2]]
