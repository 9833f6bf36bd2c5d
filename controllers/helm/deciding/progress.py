"""What a pass says while it is under way, and why it waits, in Flux's words. Pure."""

from typing import Final

from controllers.helm.deciding import policies
from controllers.helm.deciding.decisions import Action
from crds.helm import HelmRelease
from crds.meta import format_duration

PREREQUISITES: Final = "Fulfilling prerequisites"
"""Until the chart, the values and what the release depends on are there."""
CORRECTING: Final = "correcting cluster drift"


def running(obj: HelmRelease, action: Action) -> str:
    """Return what Reconciling says while an action runs."""
    timeout = format_duration(policies.timeout_seconds(obj, action.value))
    return f"Running '{action.value}' action with timeout of {timeout}"


def retrying(seconds: float) -> str:
    """Return what Reconciling says until the next attempt of the strategy ``RetryOnFailure``."""
    return f"retrying after {format_duration(seconds)}"
