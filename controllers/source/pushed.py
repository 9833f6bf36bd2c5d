"""Commits that an ImageUpdateAutomation pushed: its source is fetched at once.

The image-controller may not write sources, so this process reads what it reports. A status wakes
only a GitRepository of its own namespace: it must not cost the fetches of another tenant.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from controllers.waking import Enqueue
from crds import GIT_REPOSITORY, IMAGE_UPDATE_AUTOMATION
from crds.image_automation import ImageUpdateAutomation
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind, ObjectKey

TRIGGER: Final = "pushed"
PERMISSIONS: Final = (
    # What was pushed, and from which source.
    Rule(
        groups=(IMAGE_UPDATE_AUTOMATION.group,),
        resources=(IMAGE_UPDATE_AUTOMATION.plural,),
        verbs=("get", "list", "watch"),
    ),
)


def follow(manager: Manager, options: Options, enqueue: Enqueue) -> None:
    """Enqueue a GitRepository, by ``enqueue``, when an automation has pushed a commit of it."""
    informer: Informer[ImageUpdateAutomation] = Informer(
        manager.client,
        GroupVersionKind(*IMAGE_UPDATE_AUTOMATION.gvk),
        decode=msgspec.json.Decoder(ImageUpdateAutomation).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    informer.subscribe(handler(enqueue))
    manager.add_informer(informer)


def handler(enqueue: Enqueue) -> Callable[[Change[ImageUpdateAutomation]], None]:
    """Return the handler of changed automations."""

    def handle(change: Change[ImageUpdateAutomation]) -> None:
        if change.old is None or change.new is None or not change.new.status.last_push_commit:
            return
        before, after = change.old.status, change.new.status
        if before.last_push_commit == after.last_push_commit:
            return
        source = change.new.spec.source_ref
        own = (source.namespace or change.key.namespace) == change.key.namespace
        if own and source.kind == GIT_REPOSITORY.kind:
            enqueue(ObjectKey(change.key.namespace, source.name), TRIGGER)

    return handle
