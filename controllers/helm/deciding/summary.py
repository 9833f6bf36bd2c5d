"""Ready, of what the actions came to (Flux: ``summarize``). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controllers.helm.deciding import policies
from controllers.helm.deciding.outcomes import RELEASED, REMEDIATED, TESTED, Truth
from crds.helm import HelmRelease
from crds.meta import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The condition, without its generation."""

    status: Truth
    reason: str
    message: str


def ready(obj: HelmRelease, conditions: Sequence[Condition]) -> Ready | None:
    """Return Ready: a remediation tells most, then tests that count, then the release.

    Among them the ones of the newest generation count. A remediation, even one that went well, is
    not what was desired.
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
    status: Truth = "False" if chosen.type == REMEDIATED else chosen.status
    return Ready(status=status, reason=chosen.reason, message=chosen.message)
