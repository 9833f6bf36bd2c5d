"""Messages of a reconciliation in progress, worded as in Flux. Pure."""

from typing import Final

from controllers.helm.deciding import policies
from controllers.helm.deciding.decisions import Action
from crds.helm import HelmRelease
from crds.meta import format_duration

PREREQUISITES: Final = "Fulfilling prerequisites"
"""Message until the chart, the values and the dependencies are ready."""
CORRECTING: Final = "correcting cluster drift"


def running(obj: HelmRelease, action: Action) -> str:
    """Return the message of Reconciling while an action runs."""
    timeout = format_duration(policies.timeout_seconds(obj, action.value))
    return f"Running '{action.value}' action with timeout of {timeout}"


def retrying(seconds: float) -> str:
    """Return the message of Reconciling until the next attempt by ``RetryOnFailure``."""
    return f"retrying after {format_duration(seconds)}"
