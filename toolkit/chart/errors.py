"""Errors of charts, with the reasons of Flux.

An error is stalled if only a change of the spec or of the chart's source can fix it (Flux:
``IsPersistentBuildErrorReason``). Others are tried again.
"""

from typing import ClassVar

from toolkit.errors import StalledError, TransientError


class ChartReferenceError(StalledError):
    """There is no such chart, or it is not a chart."""

    default_reason: ClassVar[str] = "InvalidChartReference"


class MetadataPatchError(StalledError):
    """The version of the chart cannot have the metadata that the spec asks for."""

    default_reason: ClassVar[str] = "MetadataPatchError"


class ValuesFilesError(StalledError):
    """A values file does not exist or is invalid."""

    default_reason: ClassVar[str] = "ValuesFilesError"


class ChartPullError(TransientError):
    """The chart cannot be fetched from its source."""

    default_reason: ClassVar[str] = "ChartPullError"


class ChartNotFoundError(ChartPullError):
    """A registry has no version of the chart that would do."""


class ChartPackageError(TransientError):
    """The chart cannot be read or packaged."""

    default_reason: ClassVar[str] = "ChartPackageError"


class DependencyBuildError(TransientError):
    """A dependency of the chart cannot be fetched or is not the requested one."""

    default_reason: ClassVar[str] = "DependencyBuildError"


class IndexationError(TransientError):
    """A repository's index cannot be read."""

    default_reason: ClassVar[str] = "IndexationFailed"
