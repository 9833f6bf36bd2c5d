"""Messages to and from the workers that read charts (``toolkit.chart.worker``).

Requests for indexes are msgpack, for Python code; those for charts are JSON, for the engine
(``engine/internal/charts/request.go``).
"""

from msgspec import Struct

from toolkit.chart import limits
from toolkit.chart.index import Summary

__all__ = ["Built", "Dependency", "FindRequest", "Found", "IndexRequest", "InspectRequest"]
__all__ += ["Inspected", "Limits", "PackageRequest", "Summary"]


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


class Limits(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits for the size of a chart; see ``toolkit.chart.limits``."""

    chart_bytes: int = limits.CHART_BYTES
    unpacked_bytes: int = limits.UNPACKED_BYTES
    file_bytes: int = limits.FILE_BYTES
    files: int = limits.FILES
    path_depth: int = limits.PATH_DEPTH
    metadata_bytes: int = limits.METADATA_BYTES
    dependencies: int = limits.DEPENDENCIES
    values_files: int = limits.VALUES_FILES
    ignore_rules: int = limits.IGNORE_RULES


class Dependency(Struct, frozen=True, kw_only=True):
    """A chart that another one contains; ``version`` is a range, or one version from a lock."""

    name: str
    version: str = ""
    repository: str = ""


class InspectRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """Look at the chart at ``path``, a directory or a package, below ``root``."""

    root: str
    path: str
    limits: Limits = Limits()


class Inspected(Struct, frozen=True, kw_only=True, rename="camel"):
    """The chart in a directory, and the dependencies that must be fetched to package it."""

    name: str
    version: str
    is_directory: bool
    missing: tuple[Dependency, ...] = ()


class PackageRequest(Struct, frozen=True, kw_only=True, rename="camel"):
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
    limits: Limits = Limits()


class Built(Struct, frozen=True, kw_only=True, rename="camel"):
    """The written package: the chart with its final version, and the merged values files.

    ``packaged`` is false if the package is an unchanged copy.
    """

    name: str
    version: str
    original_version: str
    values_files: tuple[str, ...] = ()
    dependencies: int = 0
    packaged: bool = False
