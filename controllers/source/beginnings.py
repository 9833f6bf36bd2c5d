"""How the messages of failed sources begin: as Flux's do, because users' filters match that.

What we say beyond it (the field, the rule, the remedy) follows. The texts are those of
source-controller 1.10; they change only with Flux's.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from toolkit.errors import PenstockError

CHART: Final[Mapping[str, str]] = MappingProxyType(
    {
        "InvalidChartReference": "invalid chart reference",
        "ChartPullError": "chart pull error",
        "MetadataPatchError": "chart metadata patch error",
        "ValuesFilesError": "values files merge error",
        "DependencyBuildError": "dependency build error",
        "ChartPackageError": "chart package error",
        "ChartVerificationError": "chart verification error",
    }
)
"""What messages begin with, by reason (Flux: ``internal/helm/chart/errors.go``)."""


@contextmanager
def beginning(
    context: str,
    *kinds: type[PenstockError],
    but: tuple[type[PenstockError], ...] = (),
    reason: str | None = None,
) -> Iterator[None]:
    """Begin the message of a failure of these kinds with ``context``, and give it the reason.

    Failures of the kinds ``but`` pass as they are.
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, but):
            raise
        raise error.within(context, reason=reason) from error


@contextmanager
def of_chart() -> Iterator[None]:
    """Begin the message of whatever is wrong with a chart by its reason."""
    try:
        yield
    except PenstockError as error:
        if error.reason not in CHART:
            raise
        raise error.within(CHART[error.reason]) from error
