"""Requests by annotation: a forced release, or a reset of the failure counters. Pure.

``reconcile.fluxcd.io/forceAt`` and ``…/resetAt`` take effect if their value equals ``requestedAt``
and neither was handled before (``fluxcd/pkg/apis/meta``, ``HandleAnnotationRequest``). The status
records each value that was seen, even if it had no effect, so that it has none later. Changes of
the spec, the chart or the values reset the counters too (``forgets_failures``).
"""

from dataclasses import dataclass
from typing import Final

from controllers.helm.deciding.states import Desired
from crds.helm import HelmRelease

REQUESTED: Final = "reconcile.fluxcd.io/requestedAt"
FORCE: Final = "reconcile.fluxcd.io/forceAt"
RESET: Final = "reconcile.fluxcd.io/resetAt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Whether the annotation takes effect now, and the value to record in the status."""

    acts: bool
    handled: str


def force(obj: HelmRelease) -> Request:
    """Return the request for a release without a change, or after all attempts have failed."""
    return _request(obj, FORCE, obj.status.last_handled_force_at)


def reset(obj: HelmRelease) -> Request:
    """Return the request to reset the failure counters."""
    return _request(obj, RESET, obj.status.last_handled_reset_at)


def forgets_failures(obj: HelmRelease, desired: Desired) -> str:
    """Return the reason to reset the failure counters; empty if they stay."""
    status = obj.status
    reasons = (
        (
            status.last_attempted_generation != obj.metadata.generation,
            "generation differs from last attempt",
        ),
        (
            status.last_attempted_revision != desired.chart_version,
            "chart version differs from last attempt",
        ),
        (
            status.last_attempted_config_digest not in {"", desired.config_digest},
            "values differ from last attempt",
        ),
        (reset(obj).acts, "reset requested through annotation"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _request(obj: HelmRelease, annotation: str, handled: str) -> Request:
    asked = obj.metadata.annotations.get(annotation)
    if asked is None:
        return Request(acts=False, handled=handled)
    requested = obj.metadata.annotations.get(REQUESTED)
    acts = requested == asked not in {handled, obj.status.last_handled_reconcile_at}
    return Request(acts=acts, handled=asked)
