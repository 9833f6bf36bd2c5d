"""What annotations ask for once: a release by force, or new attempts. And what else gives these.

``reconcile.fluxcd.io/forceAt`` and ``…/resetAt`` act when their value is that of ``requestedAt``
and neither was handled yet (``fluxcd/pkg/apis/meta``, ``HandleAnnotationRequest``). A value that
was seen is noted in the status even if it did not act, so it never does later.
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
    """Whether it acts now, and what to note as seen."""

    acts: bool
    handled: str


def force(obj: HelmRelease) -> Request:
    """Return whether a release is to be made although nothing, or too much, has happened."""
    return _request(obj, FORCE, obj.status.last_handled_force_at)


def reset(obj: HelmRelease) -> Request:
    """Return whether failures are to be forgotten."""
    return _request(obj, RESET, obj.status.last_handled_reset_at)


def forgets_failures(obj: HelmRelease, desired: Desired) -> str:
    """Return why failures so far do not count for what is desired; nothing if they do."""
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
