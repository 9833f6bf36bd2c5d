"""The beginnings of error messages of sources. They are Flux's, because users' filters match them.

Penstock's own text (the field, the rule, the remedy) follows. The beginnings are those of
source-controller 1.10, and change only with Flux.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

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
"""The beginning of a message, by reason (Flux: ``internal/helm/chart/errors.go``)."""


@contextmanager
def beginning(
    context: str,
    *kinds: type[PenstockError],
    but: tuple[type[PenstockError], ...] = (),
    reason: str | None = None,
    advice: Callable[[Any], str] = lambda _: "",
) -> Iterator[None]:
    """Put ``context`` before the message of errors of these kinds, and set ``reason`` if given.

    Errors of the kinds ``but`` stay unchanged. ``advice`` returns the remedy for an error, which
    follows the message.
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, but):
            raise
        raise error.within(context, reason=reason).advising(advice(error)) from error


@contextmanager
def of_chart() -> Iterator[None]:
    """Put the text of ``CHART`` for the reason before the message of an error about a chart."""
    try:
        yield
    except PenstockError as error:
        if error.reason not in CHART:
            raise
        raise error.within(CHART[error.reason]) from error
