"""Choices that an automation does not write, because a policy of the cluster would refuse them.

An ImagePolicy verifies its choice. But the choice may be older than a policy, a key or an
annotation, if the ImagePolicy is suspended or has not been reconciled since. So an automation
verifies all choices that it uses again.

If a choice is withheld, the value at its marker stays as it is. The condition ``ImageVerified`` of
the automation lists the withheld choices with reasons.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controllers.image.admitting import REASON, VERIFIED, Admission
from controllers.image.repositories import Repositories
from crds.image import ImagePolicy
from crds.image_automation import ImageUpdateAutomation
from toolkit.errors import PenstockError, TransientError
from toolkit.kube import conditions
from toolkit.kube.controller import Reconciliation
from toolkit.verify.signature import VerificationError

SECONDS: Final = 60.0
"""Time limit for verifying all signatures of one reconciliation."""
AGAIN: Final = 60.0
"""Seconds until the next check, after one that failed for technical reasons."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Why choices are not written, by the names of their ImagePolicies.

    ``unknown`` tells that some of it could not be found out, and may be allowed later.
    """

    why: Mapping[str, str]
    unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Withholding:
    """Asks again whether choices may be written."""

    admission: Admission
    repositories: Repositories

    async def of(self, policies: Iterable[ImagePolicy]) -> Withheld:
        """Return which of the choices must not be written."""
        why, unknown = dict[str, str](), False
        deadline = time.monotonic() + SECONDS
        for policy in policies:
            if policy.status.latest_ref is None:
                continue
            try:
                await self.admission.require(
                    policy, policy.status.latest_ref, self.repositories, deadline=deadline
                )
            except PenstockError as exc:
                unknown = unknown or _may_pass(exc)
                why[policy.metadata.name] = f"{exc}{_remedy(policy)}"
        return Withheld(why=why, unknown=unknown)


def tell(rec: Reconciliation[ImageUpdateAutomation], found: Withheld) -> bool:
    """Set the condition, and send an event if it changed; return whether it changed."""
    before = conditions.find(rec.conditions, VERIFIED)
    if not found.why:
        rec.unmark(VERIFIED)
        return before is not None
    listed = [f"ImagePolicy '{name}': {why}" for name, why in list(found.why.items())[:_SHOWN]]
    more = len(found.why) - len(listed)
    message = "not written: " + "; ".join(listed) + (f"; and {more} more" if more > 0 else "")
    rec.mark(VERIFIED, "Unknown" if found.unknown else "False", REASON, message)
    new = (before or {}).get("message") != conditions.shortened(message)
    if new:
        rec.event("error", REASON, message)
    return new


def _may_pass(error: PenstockError) -> bool:
    return isinstance(error, TransientError) and not isinstance(error, VerificationError)


def _remedy(policy: ImagePolicy) -> str:
    return ": resume the policy, so that it chooses again" if policy.spec.suspend else ""
