"""Who looks again, and when: informer and policy events become entries in a controller's queue."""

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
        """Have it reconciled, and say why."""


def by_artifact(
    gvk: GroupVersionKind, enqueue: Enqueue, index: Index
) -> Callable[[Change[Any]], None]:
    """Return the handler that has a new artifact of a source wake those who use it."""

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
    """Return the handler that has objects look again when policies change.

    That is those of the namespace that the policies are about, all if it is empty; and all in any
    case if, with ``everywhere``, they look at objects of other namespaces.
    """
    watched = tuple(controllers)

    def handle(namespace: str) -> None:
        for controller in watched:
            for key in list(controller.informer.items()):
                if everywhere or namespace in {"", key.namespace}:
                    controller.enqueue(key, "policy")

    return handle
