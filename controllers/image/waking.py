"""Handlers that enqueue objects when tags, images, sources, grants or labels change."""

from typing import Any

from controllers import grants
from controllers import waking as woken
from controllers.image import imageupdateautomation
from controllers.image import repositories as needed
from controllers.image.imageupdateautomation import SOURCE
from controllers.index import Index
from controllers.sourcepolicies import SourcePolicies
from crds.image import ImagePolicy, ImageRepository
from crds.image_automation import ImageUpdateAutomation
from crds.policy_image import ImageVerificationPolicy
from crds.source import GitRepository
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change, Informer
from toolkit.objects import ObjectKey, ObjectRef
from toolkit.policy import imagepolicies
from toolkit.policy.grants import Grants


def policies(
    controller: Controller[ImagePolicy],
    repositories: Informer[ImageRepository],
    granted: Grants,
    labels: SourcePolicies,
) -> None:
    """Enqueue a policy when the tags of its repository, or the access to them, change."""
    index = Index()

    def note(change: Change[ImagePolicy]) -> None:
        used = [needed.target(change.new)] if change.new else []
        _put(index, controller, change.key, used)

    def wake(change: Change[ImageRepository]) -> None:
        if _offered(change.old) == _offered(change.new):
            return
        for key in index.users(ObjectRef(needed.KIND, change.key.namespace, change.key.name)):
            controller.enqueue(key, "source")

    controller.informer.subscribe(note)
    repositories.subscribe(wake)
    granted.subscribe(
        lambda namespace, changed: grants.wake(namespace, changed, controller.enqueue, index)
    )
    # spec.accessFrom selects the labels of the policy's namespace.
    labels.subscribe(woken.by_policy([controller]))


def verified(controller: Controller[Any], demanded: Informer[ImageVerificationPolicy]) -> None:
    """Enqueue all objects of a kind when an ImageVerificationPolicy changes."""
    wake = woken.by_policy([controller])

    def changed(change: Change[ImageVerificationPolicy]) -> None:
        before, after = (each and each.spec for each in (change.old, change.new))
        if before != after:
            wake("")

    demanded.subscribe(changed)


def automations(
    controller: Controller[ImageUpdateAutomation],
    sources: Informer[GitRepository],
    chosen: Informer[ImagePolicy],
    granted: Grants,
    demanded: Informer[ImageVerificationPolicy],
) -> None:
    """Enqueue an automation when its source or an ImagePolicy of its namespace changes.

    An ImageVerificationPolicy that changes enqueues all automations, because withheld choices may
    be allowed now.
    """
    index = Index()

    def note(change: Change[ImageUpdateAutomation]) -> None:
        used = [imageupdateautomation.target(change.new)] if change.new else []
        _put(index, controller, change.key, used)

    def wake(change: Change[ImagePolicy]) -> None:
        if _latest(change.old) == _latest(change.new):
            return
        for key in list(controller.informer.items()):
            if key.namespace == change.key.namespace:
                controller.enqueue(key, "policy")

    def spec(change: Change[GitRepository]) -> None:
        before, after = (each and each.spec for each in (change.old, change.new))
        if before != after:
            for key in index.users(ObjectRef(SOURCE, change.key.namespace, change.key.name)):
                controller.enqueue(key, "source")

    controller.informer.subscribe(note)
    chosen.subscribe(wake)
    verified(controller, demanded)
    sources.subscribe(spec)
    sources.subscribe(woken.by_artifact(SOURCE, controller.enqueue, index))
    granted.subscribe(
        lambda namespace, changed: grants.wake(namespace, changed, controller.enqueue, index)
    )


def _put(index: Index, controller: Controller[Any], key: ObjectKey, used: list[ObjectRef]) -> None:
    own = ObjectRef(controller.gvk, key.namespace, key.name)
    index.put(key, [*used, *grants.needed(own, used)])


def _offered(obj: ImageRepository | None) -> object:
    if obj is None:
        return None
    result = obj.status.last_scan_result
    return obj.spec, result and result.revision


def _latest(obj: ImagePolicy | None) -> object:
    if obj is None:
        return None
    meta = obj.metadata
    demanded = meta.annotations.get(imagepolicies.VERIFY)
    return obj.status.latest_ref, meta.labels, meta.deletion_timestamp, demanded
