"""Admit only images that are signed as policies require (``ImageVerificationPolicy``).

The plugin checks the object as it will be stored, after all mutations: each new image that an
enforced policy names must have a digest, and this digest must be signed. For images that
``imagepinning`` has just verified, the proof is cached. Policies that only warn or audit allow a
tag, and report the digest that it has now.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final, Self

from toolkit.errors import StalledError
from toolkit.policy.imagepolicies import Violation
from webhooks import imagechecks, imagepinning
from webhooks.imagechecks import Checks, Task, Verified
from webhooks.plugin import Answer, Row
from webhooks.request import Request
from webhooks.services import Services


@dataclass(frozen=True, slots=True)
class ImageVerification:
    """The validating phase."""

    checks: Checks

    @classmethod
    def make(cls, services: Services) -> Self:
        """Return the plugin."""
        return cls(Checks(services))

    async def review(self, request: Request) -> Answer:
        """Allow signed images; report violations of policies that do not enforce."""
        new = await imagechecks.new_images(request)
        policies = await self.checks.policies(request.namespace) if new else ()
        if not policies:
            return Answer()
        if len(new) * len(policies) > imagechecks.FEW:
            todo = await asyncio.to_thread(imagechecks.tasks, new, policies)
        else:
            todo = imagechecks.tasks(new, policies)
        found = todo.violations + await imagechecks.side_by_side(
            request, todo.tasks, lambda task: self._verified(request, task)
        )
        violations = [each for each in found if isinstance(each, Violation)]
        if enforced := [each for each in violations if each.mode == "Enforce"]:
            raise imagechecks.denial(enforced, found)
        warnings = tuple(str(each) for each in violations if each.mode == "Warn")
        return Answer(warnings=warnings[:_WARNINGS], audit=imagechecks.audit(found))

    async def _verified(self, request: Request, task: Task) -> list[Verified | Violation]:
        if task.reference.digest:
            return await self.checks.verify(request, task, task.reference.digest)
        enforced = [policy for policy in task.policies if policy.spec.mode == "Enforce"]
        found: list[Verified | Violation] = [
            imagechecks.violation(task.image, policy, _NO_DIGEST) for policy in enforced
        ]
        others = tuple(policy for policy in task.policies if policy.spec.mode != "Enforce")
        if others:
            told = replace(task, policies=others)
            digest = await self.checks.resolve(request, told)
            found += await self.checks.verify(request, told, digest)
        return found


_WARNINGS: Final = 8
_NO_DIGEST: Final = StalledError(
    "it is named by a tag, which may lead elsewhere when a node pulls it: write it with the digest,"
    " or let the policy pin it (spec.mutateDigest)"
)

ROW: Final = Row(
    name="imageverification",
    rules=imagepinning.RULES,
    make=ImageVerification.make,
    timeout=imagepinning.SECONDS,
    needed=imagepinning.NEEDED,
    permissions=imagepinning.PERMISSIONS,
)
