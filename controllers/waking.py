"""Handlers of informers and policies that enqueue the affected objects in a controller's queue."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from controllers.index import Index
from toolkit.artifact import store
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef


class Enqueue(Protocol):
    """Puts an object into a controller's queue (``toolkit.kube.controller``)."""

    def __call__(self, key: ObjectKey, trigger: str) -> None:
        """Enqueue an object; ``trigger`` is the reason."""


def by_artifact(
    gvk: GroupVersionKind, enqueue: Enqueue, index: Index
) -> Callable[[Change[Any]], None]:
    """Return the handler that enqueues the users of a source when it has a new artifact."""

    def handle(change: Change[Any]) -> None:
        before = change.old.status.artifact if change.old else None
        after = change.new.status.artifact if change.new else None
        if after is None or (before and store.same(before, after)):
            return
        for key in index.users(ObjectRef(gvk, change.key.namespace, change.key.name)):
            enqueue(key, "source")

    return handle


def by_policy(
    controllers: Iterable[Controller[Any]], *, everywhere: bool = False
) -> Callable[[str], None]:
    """Return the handler that enqueues objects when policies of a namespace change.

    The handler receives the namespace of the policies and enqueues the objects in it; an empty
    namespace means all objects. ``everywhere`` enqueues all objects in any case, for kinds that
    refer to other namespaces.
    """
    watched = tuple(controllers)

    def handle(namespace: str) -> None:
        for controller in watched:
            for key in list(controller.informer.items()):
                if everywhere or namespace in {"", key.namespace}:
                    controller.enqueue(key, "policy")

    return handle
