"""What crosses the pipe to the workers that read charts (``toolkit.chart.worker``)."""

from msgspec import Struct

from toolkit.chart.index import Summary
from toolkit.chart.metadata import Dependency

__all__ = ["Dependency", "FindRequest", "Found", "IndexRequest", "InspectRequest", "Inspected"]
__all__ += ["Built", "PackageRequest", "Summary"]


class IndexRequest(Struct, frozen=True, kw_only=True):
    """Turn the index at ``source`` into the JSON at ``into``."""

    source: str
    into: str


class FindRequest(Struct, frozen=True, kw_only=True):
    """Find a version in the index at ``path``, whose content ``digest`` names."""

    path: str
    digest: str
    name: str
    version: str


class Found(Struct, frozen=True, kw_only=True):
    """A version of a chart in an index; ``digest`` is hex sha256, or empty."""

    name: str
    version: str
    urls: tuple[str, ...]
    digest: str


class InspectRequest(Struct, frozen=True, kw_only=True):
    """Look at the chart at ``path``, a directory or a package, below ``root``."""

    root: str
    path: str


class Inspected(Struct, frozen=True, kw_only=True):
    """Which chart lies there, and what has to be fetched to package it."""

    name: str
    version: str
    is_directory: bool
    missing: tuple[Dependency, ...] = ()


class PackageRequest(Struct, frozen=True, kw_only=True):
    """Package the chart at ``path`` below ``root`` and write it to ``out``.

    ``metadata`` becomes the build metadata of its version. ``values_files`` are paths below
    ``root``, or in the chart where ``values_in_chart``. ``fetched`` are the packages of what
    ``Inspected.missing`` named, in that order.
    """

    root: str
    path: str
    out: str
    metadata: str = ""
    values_files: tuple[str, ...] = ()
    values_in_chart: bool = False
    ignore_missing_values_files: bool = False
    fetched: tuple[str, ...] = ()


class Built(Struct, frozen=True, kw_only=True):
    """What was written: the chart as it calls itself now, which values files it was made with.

    ``packaged`` is false where the package is the one that was there before, to the byte.
    """

    name: str
    version: str
    original_version: str
    values_files: tuple[str, ...] = ()
    dependencies: int = 0
    packaged: bool = False
