"""Put the digest into images whose signature policies demand (``ImageVerificationPolicy``).

The tag is resolved once; the digest that it led to is verified, and the same digest is pinned, so
that what was verified is what a node pulls. An image that is not signed is refused here already,
with the reason. Only policies that enforce change anything; the final object, whatever others made
of it, is looked at once more by ``imageverification``.

Images that stood in the object before are left alone, and where only the digest is missing, because
a manifest with the tag was applied again, it is put back without asking anybody.
"""

from dataclasses import dataclass
from typing import Final, Self

from crds import IMAGE_VERIFICATION_POLICY
from toolkit.kube.rbac import Rule as Permission
from toolkit.objects import GroupVersionKind
from toolkit.policy import imagepolicies, imagereference, images
from toolkit.policy.imagepolicies import Violation
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
        new = imagepolicies.changed(request.object or {}, request.old)
        if not new or request.object is None:
            return Answer()
        enforced = [
            policy
            for policy in await self.checks.policies(request.namespace)
            if policy.spec.mode == "Enforce"
        ]
        todo = {
            task.image.text: task
            for task in imagechecks.tasks(new, tuple(enforced)).tasks
            if not task.reference.digest
            and any(policy.spec.mutate_digest for policy in task.policies)
        }
        texts, left = imagepolicies.restored(
            (image for image in new if image.text in todo), request.old
        )
        wanted = {image.text for image in left}
        found = await imagechecks.side_by_side(
            request,
            [task for text, task in todo.items() if text in wanted],
            lambda task: self._verified(request, task),
        )
        if violations := [each for each in found if isinstance(each, Violation)]:
            raise imagechecks.denial(violations, found)
        digests = {each.image.text: each.digest for each in found if isinstance(each, Verified)}
        pinned = {
            image.path: imagereference.pinned(image.text, digests[image.text]) for image in left
        }
        if not texts and not pinned:
            return Answer()
        return Answer(object=images.with_images(request.object, {**texts, **pinned}))

    async def _verified(self, request: Request, task: Task) -> list[Verified | Violation]:
        digest = await self.checks.resolve(request, task)
        return await self.checks.verify(request, task, digest)


RULES: Final = (
    # The stored version of each; what is written in another one is converted to it.
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
    # Where policies hold.
    Permission(groups=("",), resources=("namespaces",), verbs=("get", "list", "watch")),
    # What Pods sign in with at registries, and what policies trust.
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
    # What a later plugin adds, such as the container of a service mesh, is pinned too.
    reinvocation=True,
    timeout=SECONDS,
    needed=NEEDED,
    permissions=PERMISSIONS,
)
