"""What can be wrong with charts, with the reasons that Flux has for it.

What only a change of the spec or of the chart's source can mend is stalled (Flux:
``IsPersistentBuildErrorReason``); everything else is tried again.
"""

from typing import ClassVar

from toolkit.errors import StalledError, TransientError


class ChartReferenceError(StalledError):
    """There is no such chart, or it is none."""

    default_reason: ClassVar[str] = "InvalidChartReference"


class MetadataPatchError(StalledError):
    """The chart's version cannot carry the metadata that the spec asks for."""

    default_reason: ClassVar[str] = "MetadataPatchError"


class ValuesFilesError(StalledError):
    """A values file is missing or is none."""

    default_reason: ClassVar[str] = "ValuesFilesError"


class ChartPullError(TransientError):
    """The chart cannot be had from where it should be."""

    default_reason: ClassVar[str] = "ChartPullError"


class ChartNotFoundError(ChartPullError):
    """A registry has no version of the chart that would do."""


class ChartPackageError(TransientError):
    """The chart cannot be read or packaged."""

    default_reason: ClassVar[str] = "ChartPackageError"


class DependencyBuildError(TransientError):
    """A chart that this one depends on cannot be had or is not what was asked for."""

    default_reason: ClassVar[str] = "DependencyBuildError"


class IndexationError(TransientError):
    """A repository's index cannot be read."""

    default_reason: ClassVar[str] = "IndexationFailed"
