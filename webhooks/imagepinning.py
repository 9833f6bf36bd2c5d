"""Put the digest into images whose signature policies demand (``ImageVerificationPolicy``).

The tag is resolved once. The resulting digest is verified and pinned, so nodes pull what was
verified. An image that is not signed is refused here already, with the reason. Only policies that
enforce change anything. ``imageverification`` checks the final object again, after all other
mutations.

Images that the object had before are not checked. If only their digest is missing, because a
manifest with the tag was applied again, it is put back without a request to the registry.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from crds import IMAGE_VERIFICATION_POLICY
from toolkit.kube.rbac import Rule as Permission
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy import imagepolicies, imagereference, images
from toolkit.policy.imagepolicies import Violation
from toolkit.policy.images import Image
from webhooks import imagechecks
from webhooks.imagechecks import Checks, Task, Verified
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.services import Services


@dataclass(frozen=True, slots=True)
class ImagePinning:
    """The mutating phase."""

    checks: Checks

    @classmethod
    def make(cls, services: Services) -> Self:
        """Return the plugin."""
        return cls(Checks(services))

    async def review(self, request: Request) -> Answer:
        """Pin the new images that are named by a tag, or refuse them."""
        new = await imagechecks.new_images(request)
        if not new or request.object is None:
            return Answer()
        enforced = tuple(
            policy
            for policy in await self.checks.policies(request.namespace)
            if policy.spec.mode == "Enforce"
        )
        todo = await asyncio.to_thread(_todo, new, request.old, enforced)
        found = await imagechecks.side_by_side(
            request, todo.tasks, lambda task: self._verified(request, task)
        )
        if violations := [each for each in found if isinstance(each, Violation)]:
            raise imagechecks.denial(violations, found)
        digests = {each.image.text: each.digest for each in found if isinstance(each, Verified)}
        pinned = {
            image.path: imagereference.pinned(image.text, digests[image.text])
            for image in todo.left
        }
        if not todo.restored and not pinned:
            return Answer()
        return Answer(object=images.with_images(request.object, {**todo.restored, **pinned}))

    async def _verified(self, request: Request, task: Task) -> list[Verified | Violation]:
        digest = await self.checks.resolve(request, task)
        return await self.checks.verify(request, task, digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Todo:
    """Images that are left to pin, images to verify, and digests to restore."""

    left: tuple[Image, ...]
    tasks: list[Task]
    restored: Mapping[images.Path, str]


def _todo(new: Sequence[Image], old: Json | None, policies: imagechecks.Policies) -> _Todo:
    named = {
        task.image.text: task
        for task in imagechecks.tasks(new, policies).tasks
        if not task.reference.digest and any(policy.spec.mutate_digest for policy in task.policies)
    }
    restored, left = imagepolicies.restored((each for each in new if each.text in named), old)
    wanted = {image.text for image in left}
    tasks = [task for text, task in named.items() if text in wanted]
    return _Todo(left=left, tasks=tasks, restored=restored)


RULES: Final = (
    # The stored version of each; objects in another version are converted to it.
    Rule(
        groups=("",),
        versions=("v1",),
        resources=("pods", "pods/ephemeralcontainers", "podtemplates", "replicationcontrollers"),
    ),
    Rule(
        groups=("apps",),
        versions=("v1",),
        resources=("deployments", "replicasets", "statefulsets", "daemonsets"),
    ),
    Rule(groups=("batch",), versions=("v1",), resources=("jobs", "cronjobs")),
)

PERMISSIONS: Final = (
    Permission(
        groups=(IMAGE_VERIFICATION_POLICY.group,),
        resources=(IMAGE_VERIFICATION_POLICY.plural,),
        verbs=("get", "list", "watch"),
    ),
    # The labels of namespaces.
    Permission(groups=("",), resources=("namespaces",), verbs=("get", "list", "watch")),
    # Pull credentials of Pods, and trusted keys of policies.
    Permission(groups=("",), resources=("secrets", "serviceaccounts"), verbs=("get",)),
)

SECONDS: Final = 15

NEEDED: Final = GroupVersionKind(*IMAGE_VERIFICATION_POLICY.gvk)
"""Without such a policy no pod waits for us."""

ROW: Final = Row(
    name="imagepinning",
    mutating=True,
    rules=RULES,
    make=ImagePinning.make,
    # Containers that a later plugin adds, such as those of a service mesh, are pinned too.
    reinvocation=True,
    timeout=SECONDS,
    needed=NEEDED,
    permissions=PERMISSIONS,
)
