"""Verify that images are signed as the policies of a namespace require; for both phases.

1. The policies that apply are those that select the namespace and name the repository.
2. A tag is resolved once. The resulting digest is verified and written into the object. Resolving
   it twice was the cause of CVE-2022-47633.
3. Every policy must be satisfied, and within a policy the required number of verifiers. A failed
   proof that a trust policy tolerates does not count.
4. If the check fails for technical reasons, this is a violation too, and the message says that
   another attempt may succeed.

Images of one request are checked in parallel, each text once. All checks end shortly before the
request's deadline, so that the results until then can be reported.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from crds import IMAGE_VERIFICATION_POLICY
from crds.policy_image import ImageVerificationPolicy
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.imagetrust.proving import Prover
from toolkit.imagetrust.trust import Trust
from toolkit.objects import GroupVersionKind
from toolkit.policy import imagepolicies, imagereference, images, selectors, unreadable
from toolkit.policy.imagepolicies import Violation
from toolkit.policy.imagereference import ImageReference, ImageReferenceError
from toolkit.policy.images import Image
from toolkit.remote.oci.oci import Descriptor
from toolkit.verify.signature import VerificationError
from toolkit.verify.subject import Subject
from webhooks.imageregistries import Registries, Visitor
from webhooks.namespaces import Namespaces
from webhooks.plugin import Cause, DeniedError
from webhooks.request import Request
from webhooks.services import Cache, Services

Policies = tuple[ImageVerificationPolicy, ...]
POLICY: Final = GroupVersionKind(*IMAGE_VERIFICATION_POLICY.gvk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An image that satisfies a policy, with its signers."""

    image: Image
    policy: str
    digest: str
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An image as it is read, and the policies that it needs to satisfy."""

    image: Image
    reference: ImageReference
    policies: Policies


async def new_images(request: Request) -> tuple[Image, ...]:
    """Return the new images of a request; runs in a thread, because there may be thousands."""
    return await asyncio.to_thread(imagepolicies.changed, request.object or {}, request.old)


class Checks:
    """Checks images; to be made in ``Row.make``."""

    def __init__(self, services: Services) -> None:
        self._installed = services.namespace
        self._policies: Cache[ImageVerificationPolicy] = services.watch(
            POLICY, decode=decode, stand_in=unreadable.image_policy
        )
        self._namespaces = Namespaces(services)
        self._trust = Trust(services.secrets, services.namespace)
        self._registries = Registries(services.client, services.http)
        self._prover = Prover(services.verifications())

    async def policies(self, namespace: str) -> Policies:
        """Return the policies that select a namespace (step 1)."""
        known = self._policies.items()
        if not known:
            return ()
        return selectors.applicable(
            known.values(),
            namespace=namespace,
            labels=await self._namespaces.labels(namespace),
            installed=self._installed,
        )

    async def resolve(self, request: Request, task: Task) -> str:
        """Return the digest of an image: its own, or that of its tag (step 2).

        Raises:
            PenstockError: the tag cannot be resolved.
        """
        if task.reference.digest:
            return task.reference.digest
        # The one that tells how its registry is reached, if there is any.
        policy = next((each for each in task.policies if each.spec.registry), task.policies[0])
        return await self._registries.digest(await self._visitor(request, policy), task.reference)

    async def verify(self, request: Request, task: Task, digest: str) -> list[Verified | Violation]:
        """Return the result of each policy for this digest (step 3)."""
        return [await self._judge(request, task, policy, digest) for policy in task.policies]

    async def _judge(
        self, request: Request, task: Task, policy: ImageVerificationPolicy, digest: str
    ) -> Verified | Violation:
        try:
            signers = await self._prove(request, task, policy, digest)
        except PenstockError as exc:
            return violation(task.image, policy, exc)
        name = policy.metadata.name
        return Verified(image=task.image, policy=name, digest=digest, signers=signers)

    async def _prove(
        self, request: Request, task: Task, policy: ImageVerificationPolicy, digest: str
    ) -> tuple[str, ...]:
        """Return the signers, one for each required verifier."""
        visitor = await self._visitor(request, policy)
        subject = Subject(
            store=self._registries.store(visitor),
            repository=task.reference.repository,
            descriptor=Descriptor(media_type="", digest=digest, size=0),
        )
        return await self._prover.signers(
            subject, policy, visitor.trusted.verifiers, scope=request.namespace
        )

    async def _visitor(self, request: Request, policy: ImageVerificationPolicy) -> Visitor:
        return Visitor(
            namespace=request.namespace,
            pulls=images.pull_access(request.object or {}),
            policy=policy.metadata.name,
            trusted=await self._trust.of(policy),
            deadline=request.deadline - _MARGIN,
        )


@dataclass(slots=True, kw_only=True)
class Tasks:
    """The images to verify, and violations by unreadable images."""

    tasks: list[Task]
    violations: list[Violation]


def tasks(found: Iterable[Image], policies: Policies) -> Tasks:
    """Pair images with the policies that name them; equal texts are checked once (step 1).

    A text that is no valid image violates all policies, because its name is unknown. So does an
    object with an unreasonable number of images; none of them is read. The time is proportional to
    images and patterns: run it in a thread for more than ``FEW``.
    """
    sorted_out, listed = Tasks(tasks=[], violations=[]), tuple(found)
    if len(listed) > MOST:
        sorted_out.violations += [violation(listed[MOST], each, _TOO_MANY) for each in policies]
        return sorted_out
    for image in {image.text: image for image in reversed(listed)}.values():
        try:
            reference = imagereference.parse(image.text)
        except ImageReferenceError as exc:
            sorted_out.violations += [violation(image, policy, exc) for policy in policies]
            continue
        bound = tuple(policy for policy in policies if imagepolicies.binds(policy, reference))
        if bound:
            sorted_out.tasks.append(Task(image=image, reference=reference, policies=bound))
    return sorted_out


async def side_by_side(
    request: Request,
    todo: Sequence[Task],
    work: Callable[[Task], Awaitable[list[Verified | Violation]]],
) -> list[Verified | Violation]:
    """Run ``work`` for every image in time; unfinished ones are violations (step 4).

    Registries are of the user's choice, so the request has no place while they are waited for.
    """
    if not todo:
        return []
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(task: Task) -> list[Verified | Violation]:
        late: PenstockError
        try:
            async with asyncio.timeout_at(request.deadline - _LAST), places:
                return await work(task)
        except TimeoutError:
            late = TransientError(f"'{task.reference.registry}' did not respond in time")
        except PenstockError as exc:
            late = exc
        return [violation(task.image, policy, late) for policy in task.policies]

    async with request.place.away():
        done = await asyncio.gather(*map(one, todo))
    return [each for found in done for each in found]


def violation(image: Image, policy: ImageVerificationPolicy, error: PenstockError) -> Violation:
    """Return the violation for an error of an image."""
    passing = isinstance(error, (TransientError, WaitingError)) and not isinstance(
        error, VerificationError
    )
    return Violation(
        image=image,
        policy=policy.metadata.name,
        mode=policy.spec.mode,
        why=f"{error}{_REMEDY_LATER if passing else ''}",
        passing=passing,
    )


def decode(data: bytes) -> ImageVerificationPolicy:
    """Read a policy."""
    return _DECODER.decode(data)


MOST: Final = 1000
"""New images of one object."""
FEW: Final = 32
"""New images, times policies, that are paired on the event loop: a thread takes longer to come."""
_TOO_MANY: Final = StalledError(
    f"only {MOST} new images of one object are verified, and it comes after these: divide"
    " the object, or add the images in several steps"
)
_DECODER: Final = msgspec.json.Decoder(ImageVerificationPolicy)
_AT_ONCE: Final = 16
_MARGIN: Final = 0.6
"""Seconds before the request's deadline at which a registry must have answered,"""
_LAST: Final = 0.3
"""and at which every answer is given."""
_REMEDY_LATER: Final = "; whether it is signed could not be found out: try again"


def audit(found: Iterable[Verified | Violation]) -> Mapping[str, str]:
    """Return the audit annotations: proved signers, and violations."""
    proved, let = list[str](), list[str]()
    for each in found:
        if isinstance(each, Verified):
            by = ", ".join(each.signers)
            proved.append(f"{each.image.owner} {each.digest} by {by} ({each.policy})")
        else:
            let.append(str(each))
    told = {"verified": proved, "violations": let}
    return {key: "; ".join(value[:_SHOWN])[:_LONGEST] for key, value in told.items() if value}


def denial(violations: Sequence[Violation], found: Iterable[Verified | Violation]) -> DeniedError:
    """Return the denial for violations: 503 if all of them are temporary, otherwise 403."""
    shown = "; ".join(map(str, violations[:_SHOWN_VIOLATIONS]))
    more = len(violations) - _SHOWN_VIOLATIONS
    return DeniedError(
        shown + (f"; and {more} more" if more > 0 else ""),
        code=503 if all(each.passing for each in violations) else 403,
        causes=tuple(
            Cause(field=each.image.field, message=str(each), reason="FieldValueForbidden")
            for each in violations[:_SHOWN]
        ),
        audit=audit(found),
    )


_LONGEST: Final = 4096
_SHOWN: Final = 10
_SHOWN_VIOLATIONS: Final = 3
