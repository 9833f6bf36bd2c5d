"""The Ready condition, computed from the conditions of actions (Flux: ``summarize``). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controllers.helm.deciding import policies
from controllers.helm.deciding.outcomes import RELEASED, REMEDIATED, TESTED, Truth
from crds.helm import HelmRelease
from crds.meta import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The Ready condition, without its generation."""

    status: Truth
    reason: str
    message: str


def ready(obj: HelmRelease, conditions: Sequence[Condition]) -> Ready | None:
    """Return Ready, or None if there is none of the conditions of actions.

    Only conditions of the newest generation count. Remediated comes before TestSuccess, unless the
    spec ignores test failures, and both come before Released. Even after a successful remediation
    Ready is False, because the release is not as desired: reason and message are those of what
    failed, and the message goes on with the remediation. If the remediation failed as well, it
    comes first.
    """
    counts_tests = policies.tests(obj) and not policies.ignores_tests(obj)
    order = (REMEDIATED, *((TESTED,) if counts_tests else ()), RELEASED)
    found = [each for each in conditions if each.type in order]
    if not found:
        return None
    newest = max(each.observed_generation for each in found)
    chosen = min(
        (each for each in found if each.observed_generation == newest),
        key=lambda each: order.index(each.type),
    )
    if chosen.type != REMEDIATED:
        return Ready(status=chosen.status, reason=chosen.reason, message=chosen.message)
    causes = [each for each in found if _is_cause(each)]
    told = [*causes, chosen] if chosen.status == "True" else [chosen, *causes]
    message = "\n".join(each.message for each in told)
    return Ready(status="False", reason=told[0].reason, message=message)


def _is_cause(condition: Condition) -> bool:
    """Tell whether a condition says what was remediated."""
    return condition.status == "False" and condition.type in {RELEASED, TESTED}
